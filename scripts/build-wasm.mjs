// Builds the WebAssembly kernels: each source in wasm/ through the AssemblyScript compiler into one TypeScript file that carries the
// binary as base64, so that neither bundlers nor plugins need to find an asset.
// Usage: node scripts/build-wasm.mjs [folder to write to instead of src]
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = process.argv[2] ?? join(root, 'src');

const FEATURES = '--enable simd --disable sign-extension,mutable-globals,nontrapping-f2i';
const OPTIONS = `--runtime stub --use abort= -O3 --converge --noAssert ${FEATURES}`;

const KERNELS = [
  {
    source: 'wasm/kernel.ts',
    output: 'kv/hashing/kernel.generated.ts',
    constant: 'KERNEL_BASE64',
    what: 'block-hash kernel',
    // 64 KiB pages. The maximum has room for the longest prompt and two hashes per token: 16 + 2 × 32 MiB, and the kernel's own. The
    // first MiB, which the system provides when it is touched, holds prompts of 200,000 tokens: the first growth detaches a buffer,
    // and from then on V8 looks at every access to a typed array whether its buffer is detached, which costs loops half as much again.
    memory: '--initialMemory 16 --maximumMemory 1282',
  },
  {
    source: 'wasm/scan.ts',
    output: 'host/scan-kernel.generated.ts',
    constant: 'SCAN_KERNEL_BASE64',
    what: 'cost scan',
    // Each candidate table brings a memory of its size.
    memory: '--importMemory',
  },
];

for (const kernel of KERNELS) await build(kernel);

async function build({ source, output, constant, what, memory }) {
  let binary;
  const { error } = await asc.main(
    [source, '--baseDir', root, ...`${OPTIONS} ${memory}`.split(' '), '--outFile', 'kernel.wasm'],
    {
      readFile: (name, base) => readFile(join(base, name), 'utf8').catch(() => null),
      writeFile: (_name, contents) => {
        binary = contents;
      },
      listFiles: () => [],
      stderr: process.stderr,
    },
  );
  if (error !== null || binary === undefined) {
    process.stderr.write(`${error?.message ?? 'the compiler wrote no binary'}\n`);
    process.exit(1);
  }

  const lines = Buffer.from(binary)
    .toString('base64')
    .match(/.{1,110}/g);
  const path = join(target, output);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(
    path,
    `// Built by scripts/build-wasm.mjs from wasm/: do not edit. ${binary.length} bytes of WebAssembly.
/** The ${what}, base64. */
export const ${constant}: string = [
${lines.map((line) => `  '${line}',`).join('\n')}
].join('');
`,
  );
}
