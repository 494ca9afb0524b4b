// `pointsman doctor` against engines with faults planted in what they do. Everything it knows it sees through their sockets.
import { afterEach, describe, expect, test } from 'vitest';
import { diagnose } from '../src/cli/doctor.ts';
import { parseConfig } from '../src/config/index.ts';
import type { Finding, FindingCode } from '../src/parity/index.ts';
import {
  FAULTS,
  type Fault,
  type FaultyEngine,
  faultyEngine,
  faultyFleetYaml,
} from './support/faulty-engine.ts';

/** What each fault is called, and a part of the remedy that must be named. */
const NAMED: Readonly<Record<Fault, readonly [FindingCode, string]>> = {
  'wrong block size': ['block_size', '--block-size 16'],
  'random hash seed': ['hash_seed', 'PYTHONHASHSEED=0'],
  'other template': ['template', 'models.tiny.tokens.template'],
  'events off': ['events_off', '"enable_kv_cache_events":true'],
  'literal bind address': ['literal_bind_address', '"endpoint":"tcp://*:'],
  'swapped ranks': ['swapped_ranks', 'exchange the endpoints of ranks'],
  'hybrid groups': ['hybrid_groups', '--disable-hybrid-kv-cache-manager'],
  'page size 1': ['page_size_1', '--page-size 16'],
  'salt ignored': ['salt_ignored', 'cache_salt'],
  'old replay': ['replay_old', '"buffer_steps"'],
  'no replay': ['no_replay', '"replay_endpoint"'],
  'clock jump': ['event_clock', 'time service'],
  'duplicate stores': ['duplicate_stores', 'one publisher per rank'],
  'LoRA mismatch': ['lora_mismatch', 'lora_name'],
  'prefix caching off': ['prefix_caching_off', '--enable-prefix-caching'],
};

/** Nothing of these is announced, so that no other fault of what is announced exists beside them. */
const MUTE: readonly Fault[] = ['events off', 'literal bind address', 'prefix caching off'];
/** What shows without any event. */
const UNSAID: readonly Fault[] = ['other template'];
/** Pairs of which one leaves nothing of the other: sizes that cannot both be, hashes that nobody else has blocks for. */
const EXCLUSIVE: readonly (readonly [Fault, Fault])[] = [
  ['wrong block size', 'page size 1'],
  ['wrong block size', 'random hash seed'],
  ['page size 1', 'random hash seed'],
  ['page size 1', 'LoRA mismatch'],
  ['old replay', 'no replay'],
];

/** Whether two faults can be in one engine and both show. */
function fitTogether(a: Fault, b: Fault): boolean {
  if (EXCLUSIVE.some((pair) => pair.includes(a) && pair.includes(b))) return false;
  const mute = MUTE.filter((fault) => fault === a || fault === b);
  if (mute.length === 0) return true;
  if (mute.length === 2) return !(mute.includes('events off') && mute.includes('literal bind address'));
  const other = mute[0] === a ? b : a;
  return UNSAID.includes(other) || (other === 'salt ignored' && mute[0] !== 'prefix caching off');
}

const PAIRS = FAULTS.flatMap((a, at) => FAULTS.slice(at + 1).map((b) => [a, b] as const));

/** As many pairs in one fleet as a doctor sees in a moment. */
const PAIRS_AT_ONCE = 10;

/** Plants each pair in one engine, or in two where they cannot share one, beside two healthy ones; every fault must be named. */
async function expectPairs(pairs: typeof PAIRS): Promise<void> {
  const fleet: (readonly Fault[])[] = [[], []];
  const planted = pairs.map(([a, b]) => {
    const engines = fitTogether(a, b) ? [[a, b]] : [[a], [b]];
    const first = fleet.push(...engines) - engines.length + 1;
    return { a, b, at: BigInt(first), bt: BigInt(first + engines.length - 1) };
  });
  const findings = await examined(fleet);
  for (const { a, b, at, bt } of planted) {
    expectNamed(findings, at, a, `${a} with ${b}`);
    expectNamed(findings, bt, b, `${b} with ${a}`);
  }
  for (const healthy of [1n, 2n]) expect(codesOf(findings, healthy)).toEqual([]);
}

const running: FaultyEngine[] = [];
afterEach(() => {
  for (const engine of running.splice(0)) engine.close();
});

async function examined(fleet: readonly (readonly Fault[])[]): Promise<Finding[]> {
  const engines: FaultyEngine[] = [];
  for (const faults of fleet) engines.push(await faultyEngine(faults));
  running.push(...engines);
  const { findings } = await diagnose(parseConfig(faultyFleetYaml(engines), 'router.yaml').config);
  return [...findings];
}

const codesOf = (findings: readonly Finding[], worker: bigint): string[] =>
  [...new Set(findings.filter((one) => one.worker === worker).map(({ code }) => code))].sort();

function expectNamed(
  findings: readonly Finding[],
  worker: bigint,
  fault: Fault,
  where: string = fault,
): void {
  const [code, remedy] = NAMED[fault];
  const found = findings.find((one) => one.worker === worker && one.code === code);
  expect.soft(found?.remedy, `${where}: ${JSON.stringify(codesOf(findings, worker))}`).toContain(remedy);
}

// What it waits for is up to seventeen engines in this one process: seconds, or a minute where others take the processors.
describe('doctor', { timeout: 240_000 }, () => {
  test('has nothing to say of a healthy fleet', async () => {
    expect(await examined([[], [], []])).toEqual([]);
  });

  test('names each of the 15 faults at its worker and nothing else, all at once', async () => {
    const findings = await examined([...FAULTS.map((fault) => [fault]), [], []]);
    const seen = Object.fromEntries(FAULTS.map((fault, at) => [fault, codesOf(findings, BigInt(at + 1))]));
    expect(seen).toEqual(Object.fromEntries(FAULTS.map((fault) => [fault, [NAMED[fault][0]]])));
    for (const [at, fault] of FAULTS.entries()) expectNamed(findings, BigInt(at + 1), fault);
    for (const healthy of [16n, 17n]) expect(codesOf(findings, healthy)).toEqual([]);
  });

  test('names both faults and both remedies of random pairs', async () => {
    let state = Number(process.env.POINTSMAN_PAIR_SEED ?? 7) >>> 0;
    const left = [...PAIRS];
    const chosen = Array.from({ length: PAIRS_AT_ONCE }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return left.splice((state >>> 8) % left.length, 1);
    }).flat();
    await expectPairs(chosen);
  });

  // Minutes long, so it exists only where it is asked for: a run of everything has no skipped tests.
  if (process.env.POINTSMAN_ALL_PAIRS === '1') {
    test('names both faults and both remedies of all 105 pairs', async () => {
      expect(PAIRS.length).toBe(105);
      for (let from = 0; from < PAIRS.length; from += PAIRS_AT_ONCE) {
        await expectPairs(PAIRS.slice(from, from + PAIRS_AT_ONCE));
        for (const engine of running.splice(0)) engine.close();
      }
    }, 600_000);
  }
});
