// The wire shell and the virtual shell drive one engine: behind the same router the same requests get the same decisions, cached
// tokens, outputs and times. What a test or a replay finds in virtual time is therefore true of engines on the wire.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DecisionRecord } from '../src/observe/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../src/simulator/index.ts';
import { type HeardRequest, SHELL_MODEL } from './support/shell-door.ts';
import { shellWorkload } from './support/shell-workload.ts';
import { runVirtualShell, type ShellSetup } from './support/virtual-shell.ts';
import { runWireShell } from './support/wire-shell.ts';

const REQUESTS = 200;
/** Thousands of turns over sockets: seconds alone, a minute beside other work. */
const TIMEOUT_MS = 300_000;
/** Both shells read an injected clock, so that only rounding can tell them apart; at most 15 ms would be allowed. */
const SAME_TIME_MS = 0.001;

let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shells-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function setUp(policy: string): ShellSetup {
  const file = join(folder, 'policy.yaml');
  writeFileSync(file, policy);
  return {
    workload: shellWorkload(REQUESTS, 7),
    workers: 4,
    engine: { ...DEFAULT_ENGINE_SETTINGS, model: SHELL_MODEL, kvBlocks: 300, hashSeed: 5 },
    policy: file,
    seed: 11,
  };
}

describe('the same 200 requests through the virtual and the wire shell', () => {
  it.each([
    ['by the default cost with random draws', false, 'router: { router_temperature: 0.2 }\n'],
    [
      'with copies between engines',
      true,
      'worker_selection:\n  aggregated:\n    type: dynamo-default-cost-fn\n    hints: [{ type: kv_fetch }]\n',
    ],
    [
      'with sessions that are retained, by hash or by range, and released',
      true,
      `worker_selection:
  aggregated:
    type: dynamo-default-cost-fn
    hints:
      - { type: kv_retain_session, name: early, parameters: { form: block_hashes, ttl: { type: fixed, ms: 3000 } } }
      - { type: kv_retain_session, name: whole, parameters: { priority: 20, max_blocks: 20 } }
      - { type: kv_release_session }
`,
    ],
  ])(
    'are decided, cached, answered and timed alike %s',
    async (_, copies, policy) => {
      const setup = setUp(policy);
      const virtual = await runVirtualShell(setup);
      const wire = await runWireShell(setup, virtual.moments);
      expect(virtual.heard).toHaveLength(REQUESTS);
      expect(wire.map(outcome)).toEqual(virtual.heard.map(outcome));
      for (const [index, { times }] of wire.entries()) {
        const expected = virtual.heard[index]!.times;
        expect(times).toHaveLength(expected.length);
        for (const [step, at] of times.entries())
          expect(Math.abs(at - expected[step]!)).toBeLessThan(SAME_TIME_MS);
      }
      // The comparison is worth something only when caches, all workers and, where they are on, hints came into play.
      expect(new Set(wire.map(({ worker }) => worker)).size).toBe(4);
      expect(wire.filter(({ report }) => (report?.cachedTokens ?? 0) > 0).length).toBeGreaterThan(100);
      const outcomes = wire
        .flatMap(({ decision }) => decision?.hints?.sent ?? [])
        .map(({ outcome: one }) => one);
      if (copies) expect(outcomes.filter((one) => one === 'accepted').length).toBeGreaterThan(10);
      else expect(outcomes).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

/** Everything that must be equal. */
function outcome({ worker, tokens, report, error, decision }: HeardRequest): unknown {
  return { worker, tokens, report, error, decision: decision === null ? null : decided(decision) };
}

/**
 * A decision without clock times (compared apart), wall times, the hash under a key that each process draws for itself, and the
 * length of hints, which name addresses.
 */
function decided(record: DecisionRecord): unknown {
  const { wall: _wall, booking, session, hints, outcome: ended, index, ...rest } = record;
  return {
    ...rest,
    booking: { ...booking, held_ms: null },
    session: { ...session, id_hash: null },
    hints: hints && {
      ...hints,
      sent: hints.sent.map((action) => ({ ...action, bytes: null })),
      policies: hints.policies.map((policy) => ({ ...policy, us: null })),
    },
    outcome: { ...ended, ttft_ms: null, e2e_ms: null },
    index: { ...index, per_worker_age_ms: Object.keys(index.per_worker_age_ms) },
  };
}
