// Builds the block-hash kernel: wasm/kernel.ts through the AssemblyScript compiler into one TypeScript file that carries the
// binary as base64, so that neither bundlers nor plugins need to find an asset.
// Usage: node scripts/build-wasm.mjs [output file]
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const output = process.argv[2] ?? join(root, 'src/kv/hashing/kernel.generated.ts');

// 64 KiB pages. The maximum has room for the longest prompt and two hashes per token: 16 + 2 × 32 MiB, and the kernel's own.
const PAGES = '--initialMemory 2 --maximumMemory 1282';
const FEATURES = '--enable simd --disable sign-extension,mutable-globals,nontrapping-f2i';
const OPTIONS = `--runtime stub --use abort= -O3 --converge --noAssert ${FEATURES} ${PAGES}`.split(' ');

let binary;
const { error } = await asc.main(
  ['wasm/kernel.ts', '--baseDir', root, ...OPTIONS, '--outFile', 'kernel.wasm'],
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
await writeFile(
  output,
  `// Built by scripts/build-wasm.mjs from wasm/: do not edit. ${binary.length} bytes of WebAssembly.
/** The block-hash kernel, base64. */
export const KERNEL_BASE64: string = [
${lines.map((line) => `  '${line}',`).join('\n')}
].join('');
`,
);
