// `pointsman doctor` against engines with faults planted in what they do. Everything it knows it sees through their sockets.
import { afterEach, describe, expect, test } from 'vitest';
import { diagnose } from '../src/cli/doctor.ts';
import { parseConfig } from '../src/config/index.ts';
import type { Finding, FindingCode } from '../src/parity/index.ts';
import { FAULTS, type Fault, type FaultyEngine, faultyEngine, faultyFleetYaml } from './support/faulty-engine.ts';

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

const running: FaultyEngine[] = [];
afterEach(() => {
  for (const engine of running.splice(0)) engine.close();
});

async function examined(fleet: readonly (readonly Fault[])[]): Promise<Finding[]> {
  const engines: FaultyEngine[] = [];
  for (const faults of fleet) engines.push(await faultyEngine(faults));
  running.push(...engines);
  return diagnose(parseConfig(faultyFleetYaml(engines), 'router.yaml').config);
}

const codesOf = (findings: readonly Finding[], worker: bigint): string[] =>
  [...new Set(findings.filter((one) => one.worker === worker).map(({ code }) => code))].sort();

function expectNamed(findings: readonly Finding[], worker: bigint, fault: Fault): void {
  const [code, remedy] = NAMED[fault];
  const found = findings.find((one) => one.worker === worker && one.code === code);
  expect(found?.remedy, `${fault}: ${JSON.stringify(codesOf(findings, worker))}`).toContain(remedy);
}

describe('doctor', () => {
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
});
