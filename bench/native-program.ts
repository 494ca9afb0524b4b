// Yardsticks in C and Rust, built from their sources in bench/ into a temporary folder where their compiler is present.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A program that was built. */
export interface NativeProgram {
  /** Runs it; answers the words of the line it prints. */
  run(args: readonly number[]): readonly string[];
  /** Removes it. */
  remove(): void;
}

/** Compilers to try, in order, and their options by the kind of source. Rust's may lie where its installer puts it. */
const COMPILERS = {
  c: { commands: ['gcc'], options: ['-O3', '-std=gnu11'] },
  rs: {
    commands: ['rustc', join(homedir(), '.cargo/bin/rustc')],
    options: ['--edition=2021', '-C', 'opt-level=3'],
  },
} as const;

/** Builds `bench/NAME`; null where there is no compiler for it. */
export function buildNative(name: `${string}.${keyof typeof COMPILERS}`): NativeProgram | null {
  const { commands, options } = COMPILERS[name.endsWith('.rs') ? 'rs' : 'c'];
  // Compiled, this file lies in .bench/bench; the sources stay in bench.
  const source = fileURLToPath(new URL(`../../bench/${name}`, import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), 'pointsman-bench-'));
  const program = join(folder, 'program');
  const remove = () => rmSync(folder, { recursive: true });
  for (const command of commands) {
    try {
      execFileSync(command, [...options, '-o', program, source], { stdio: 'pipe' });
    } catch (thrown) {
      if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') continue;
      remove();
      throw thrown;
    }
    return {
      run: (args) => execFileSync(program, args.map(String), { encoding: 'utf8' }).trim().split(' '),
      remove,
    };
  }
  remove();
  return null;
}
