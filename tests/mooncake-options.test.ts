// The options of the Mooncake benchmark: what stands for what, and each refusal in words.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { readMooncakeArguments } from '../scripts/mooncake-options.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'mooncake-options-'));
const conversation = join(folder, 'mooncake_conversation_trace.jsonl.gz');
writeFileSync(conversation, '');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const read = (...args: string[]) => readMooncakeArguments(args, folder);

function bench(...args: string[]) {
  const { status, stderr, stdout } = spawnSync(process.execPath, ['scripts/bench.mjs', ...args], {
    cwd: root,
    encoding: 'utf8',
  });
  return { status, out: stdout, err: stderr };
}

describe('the options of the Mooncake benchmark', () => {
  it('have defaults', () => {
    expect(read()).toEqual({
      options: {
        trace: { name: 'conversation', file: conversation, reason: null },
        limit: null,
        workers: [100, 1, 7, 1000],
        duplicates: 1,
        lengthFactor: 1,
        traceCopies: 1,
        blockSize: 512,
        capacity: 16_384,
        seed: 42,
        engineHashes: ['own', 'router'],
        loops: ['closed', 'open'],
        rounds: 5,
        rates: null,
      },
    });
  });

  it('are taken', () => {
    const sizes = '--duplicates 2 --length-factor 3 --trace-copies 4 --block-size 16 --capacity 5 --seed 0';
    const others = '--workers 7 --limit 8 --rounds 9 --engine-hashes router --loop open --rate 10,20';
    expect(read(...`${sizes} ${others} --trace ${conversation}`.split(' '))).toEqual({
      options: {
        trace: { name: basename(conversation), file: conversation, reason: null },
        limit: 8,
        workers: [7],
        duplicates: 2,
        lengthFactor: 3,
        traceCopies: 4,
        blockSize: 16,
        capacity: 5,
        seed: 0,
        engineHashes: ['router'],
        loops: ['open'],
        rounds: 9,
        rates: [10, 20],
      },
    });
  });

  it('say why a trace is made', () => {
    expect(read('--trace', 'toolagent')).toMatchObject({
      options: {
        trace: {
          name: 'toolagent',
          file: null,
          reason: 'as ../shared/data has no mooncake_toolagent_trace.jsonl.gz',
        },
      },
    });
    expect(read('--made')).toMatchObject({
      options: { trace: { name: 'conversation', file: null, reason: 'as asked for' } },
    });
  });

  it.each([
    ['--workers 0', '--workers takes whole numbers from 1 to 65536, not "0"'],
    ['--workers 5,x', '--workers takes whole numbers from 1 to 65536, not "x"'],
    [
      '--workers 1,1000 --duplicates 70',
      '--workers times --duplicates is 70000, but the prefix index has 65536 owner slots',
    ],
    ['--length-factor 1.5', '--length-factor takes whole numbers from 1 to 4096, not "1.5"'],
    ['--seed=-1', '--seed takes whole numbers from 0 to 4294967295, not "-1"'],
    ['--rate 1e3', '--rate takes whole numbers from 1 to 100000000, not "1e3"'],
    ['--loop neither', '--loop takes both, closed, open, not "neither"'],
    ['--engine-hashes vllm', '--engine-hashes takes both, own, router, not "vllm"'],
    [
      '--trace nowhere.jsonl',
      '--trace takes conversation, synthetic, toolagent or a file, and there is no file "nowhere.jsonl"',
    ],
    ['--made --trace x', '--made makes conversation, synthetic, toolagent, not "x"'],
    ['--speed 3', "Unknown option '--speed'"],
    ['--workers', "Option '--workers <value>' argument missing"],
    ['stray', "Unexpected argument 'stray'. This command does not take positional arguments"],
  ])('refuse %s', (args, problem) => {
    expect(read(...args.split(' '))).toEqual({
      problem: `${problem}; see npm run bench:mooncake -- --help`,
    });
  });
});

describe('scripts/bench.mjs', () => {
  it('hands options on to the benchmark that has some, and exits 2 on wrong ones before anything is compiled', () => {
    expect(bench('mooncake', '--workers', '0')).toEqual({
      status: 2,
      out: '',
      err: '--workers takes whole numbers from 1 to 65536, not "0"; see npm run bench:mooncake -- --help\n',
    });
    expect(bench('selection', '--workers', '7')).toEqual({
      status: 2,
      out: '',
      err: '--workers: only a benchmark named alone takes options of its own; those that do: mooncake\n',
    });
  });

  it('prints help with examples', () => {
    const { err, out, status } = bench('mooncake', '--help');
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(out).toContain('\nExamples:\n  npm run bench:mooncake\n');
  });
});
