// The policies of examples/sessions as users load them, in front of simulated engines in virtual time: what reaches an engine is compared
// with what that engine holds.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import harnessPrefetch from '../examples/sessions/harness-prefetch.ts';
import retainSession from '../examples/sessions/retain-session.ts';
import type { EngineTransport } from '../src/engines/index.ts';
import type { SessionContext } from '../src/plugin/index.ts';
import type { SimulatedEngineSettings } from '../src/simulator/index.ts';
import { dividedFleet } from './support/divided-fleet.ts';
import { countedTokens } from './support/road-request.ts';

const BLOCK = 16;
const folder = fileURLToPath(new URL('../examples/sessions/', import.meta.url));
/** A file of the examples, its plugins given as definitions. */
const yamlOf = (name: string) => readFileSync(`${folder}${name}`, 'utf8').replace(/^plugins: .*$/m, '');

interface Sent {
  readonly worker: bigint;
  readonly request: string;
  readonly hint: unknown;
  /** What the engine holds on its device as the request arrives. */
  readonly resident: ReadonlySet<bigint>;
}

/** A fleet under a configuration, and what its engines were sent. */
async function world(
  yaml: string,
  workers: { prefill: number; decode: number },
  engine: Partial<SimulatedEngineSettings>,
) {
  const sent: Sent[] = [];
  const residentOf = (worker: bigint): ReadonlySet<bigint> => {
    const held = fleet.fleet.engine(worker).residentBlocks('device');
    return new Set(
      Array.from(
        { length: held.length / 2 },
        (_, at) => (BigInt(held[2 * at + 1]!) << 32n) | BigInt(held[2 * at]!),
      ),
    );
  };
  const noting = (engines: EngineTransport): EngineTransport => ({
    ...engines,
    dispatch(request, sink) {
      const worker = request.worker.spec.id;
      sent.push({ worker, request: request.requestId, hint: request.hint, resident: residentOf(worker) });
      return engines.dispatch(request, sink);
    },
  });
  const fleet = await dividedFleet({
    ...workers,
    yaml,
    engine: { blockSize: BLOCK, ...engine },
    transport: noting,
    definitions: [retainSession, harnessPrefetch],
  });
  let requests = 0;
  return {
    ...fleet,
    sent,
    residentOf,
    outcomesOf: ({ request }: Sent) =>
      fleet.router.decisions.ofRequest(request).flatMap(({ hints }) => hints?.sent ?? []),
    /** One turn to its end, and all that follows from it. @param from where the tokens begin: other numbers, other prompts. */
    turn(sessionId: string | null, tokens: number, from = 0, more: Partial<SessionContext> = {}) {
      requests += 1;
      const session = sessionId === null ? null : { sessionId, agentHeaders: {}, ...more };
      const heard = fleet.send(`r${requests}`, countedTokens(tokens, from), { session });
      fleet.time.runUntil(fleet.time.now() + 2000);
      expect(heard.report).not.toBeNull();
      return sent.filter(({ request }) => request === `r${requests}`);
    },
  };
}

interface Envelope {
  readonly protocol_version: string;
  readonly message_id: string;
  readonly actions: readonly {
    readonly action_id: string;
    readonly action_type: string;
    readonly action_version: string;
    readonly payload: Readonly<Record<string, unknown>>;
  }[];
}

/** The whole envelope, its block hashes apart. */
function envelopeOf({ hint }: Sent): { readonly envelope: unknown; readonly hashes: readonly bigint[][] } {
  const { actions, ...rest } = hint as Envelope;
  const hashes = actions.map(({ payload }) => [...(payload.block_hashes as BigUint64Array)]);
  const bare = actions.map(({ payload: { block_hashes: _, ...payload }, ...action }) => ({
    ...action,
    payload,
  }));
  return { envelope: { ...rest, actions: bare }, hashes };
}

const RETAIN = { action_id: 'a1', action_type: 'kv.retain', action_version: '1.0' };
const ONE = { prefill: 0, decode: 1 };
const AGGREGATED = { role: 'aggregated' } as const;

test('retain-session: over three turns the retained hashes are what the engine holds of the session, each once', async () => {
  const { outcomesOf, residentOf, router, turn } = await world(yamlOf('router.yaml'), ONE, AGGREGATED);
  turn('other', 100, 50_000);
  const others = residentOf(1n);
  const [first] = turn('s', 70);
  expect(first!.hint).toBeNull();
  for (const tokens of [150, 230]) {
    const [sent] = turn('s', tokens);
    const { envelope, hashes } = envelopeOf(sent!);
    expect(envelope).toEqual({
      protocol_version: '0.1',
      message_id: sent!.request,
      actions: [{ ...RETAIN, payload: { priority: 50, ttl_ms: 60_000 } }],
    });
    const own = [...sent!.resident].filter((hash) => !others.has(hash));
    expect(own.length).toBeGreaterThanOrEqual(tokens === 150 ? 4 : 9);
    expect(hashes[0]!.toSorted()).toEqual(own.toSorted());
    expect(new Set(hashes[0]).size).toBe(hashes[0]!.length);
    expect(outcomesOf(sent!)).toMatchObject([
      { policy: 'retain-session', outcome: 'accepted', blocks_done: hashes[0]!.length },
    ]);
  }
  expect(turn('s', 300, 0, { sessionFinal: true })[0]!.hint).toBeNull();
  await router.close();
});

test('retain-session: max_blocks cuts from the end, so that the rest can be used', async () => {
  const yaml = yamlOf('router.yaml').replace('max_blocks: 1024', 'max_blocks: 3');
  const { router, turn } = await world(yaml, ONE, AGGREGATED);
  const whole = await world(yamlOf('router.yaml'), ONE, AGGREGATED);
  for (const tokens of [70, 150, 230]) {
    const [cut] = turn('s', tokens);
    const [all] = whole.turn('s', tokens);
    if (tokens > 70) expect(envelopeOf(cut!).hashes[0]).toEqual(envelopeOf(all!).hashes[0]!.slice(0, 3));
  }
  await router.close();
  await whole.router.close();
});

test('with the lineage off, and to engines without the action, nothing is sent', async () => {
  // Without KV events nobody knows what engines hold.
  const off = await world(`router: { use_kv_events: false }\n${yamlOf('router.yaml')}`, ONE, AGGREGATED);
  const unable = await world(yamlOf('router.yaml'), ONE, { ...AGGREGATED, actions: ['kv.fetch@1.0'] });
  for (const { router, sent, turn } of [off, unable]) {
    for (const tokens of [70, 150, 230]) turn('s', tokens);
    expect(sent.map(({ hint }) => hint)).toEqual([null, null, null]);
    await router.close();
  }
});

test('harness-prefetch: with the end of a child the parent’s blocks come back from host memory', async () => {
  const tight = { ...AGGREGATED, kvBlocks: 24, hostKvBlocks: 256 };
  const yaml = yamlOf('router.yaml').replace(/^.*retain-session, .*$/m, '');
  const { fleet, outcomesOf, residentOf, router, turn } = await world(yaml, ONE, tight);
  const parent = { parentSessionId: 'main' };
  turn('main', 160);
  turn('child', 200, 70_000, parent);
  const before = residentOf(1n);
  // A request of nobody's pushes the parent off the device.
  turn(null, 280, 90_000);
  const [ended] = turn('child', 17, 80_000, { ...parent, sessionFinal: true });
  const { envelope, hashes } = envelopeOf(ended!);
  expect(envelope).toMatchObject({
    actions: [{ action_type: 'kv.prefetch', action_version: '1.0', payload: {} }],
  });
  expect(hashes[0]!.length).toBeGreaterThan(0);
  for (const hash of hashes[0]!) expect([before.has(hash), ended!.resident.has(hash)]).toEqual([true, false]);
  for (const hash of hashes[0]!) expect(residentOf(1n).has(hash)).toBe(true);
  // Deferred with the head, and told of again when the blocks were there.
  expect(outcomesOf(ended!)).toMatchObject([
    { type: 'kv.prefetch@1.0', outcome: 'accepted', blocks_done: hashes[0]!.length },
  ]);
  const onboarded = fleet.engine(1n).stats().onboardedBlocks;
  turn('main', 170);
  expect(fleet.engine(1n).stats().onboardedBlocks).toBe(onboarded);
  await router.close();
});

test('hints per role: prefill and decode workers are sent lists of their own', async () => {
  const { residentOf, router, turn } = await world(yamlOf('per-role.yaml'), { prefill: 1, decode: 1 }, {});
  turn('s', 150);
  turn('s', 230);
  const held = [1n, 2n].map(residentOf);
  const sent = turn('s', 310, 0, {});
  const [prefill, decode] = [1n, 2n].map((worker) => envelopeOf(sent.find((one) => one.worker === worker)!));
  expect(prefill!.envelope).toMatchObject({ actions: [{ ...RETAIN, payload: { priority: 80 } }] });
  expect(decode!.envelope).toMatchObject({ actions: [{ ...RETAIN, payload: { priority: 40 } }] });
  expect(prefill!.hashes[0]).toHaveLength(4);
  expect(decode!.hashes[0]!.toSorted()).toEqual([...held[1]!].toSorted());
  for (const hash of prefill!.hashes[0]!) expect(held[0]!.has(hash)).toBe(true);
  const ended = turn('s', 320, 0, { sessionFinal: true });
  const actions = ended.map(({ hint, worker }) => [
    worker,
    (hint as Envelope | null)?.actions[0]?.action_type,
  ]);
  expect(actions).toEqual([
    [1n, undefined],
    [2n, 'kv.evict'],
  ]);
  expect(residentOf(2n).size).toBe(0);
  await router.close();
});
