// Blocks on every tier, from an engine's events over the wire to what is seen of them: /workers, metrics, the decision and its cost,
// and the indexer's answer.
import { afterEach, expect, it } from 'vitest';
import type { KvEvent } from '../src/events/index.ts';
import { fromBigUint64Array, TIERS, type Tier } from '../src/kv/index.ts';
import {
  complete,
  decisionOf,
  eventLink,
  eventually,
  metric,
  promptOf,
  routerYaml,
  type Serving,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterEach(stopAll);

const BLOCK = 16;
const PER_TIER = 4;
/** 16 blocks, of which the last lies on the farthest tier, and a token to be computed. */
const PROMPT = promptOf(5, TIERS.length * PER_TIER * BLOCK + 1);
/** Names of the engine's own. */
const NAMES = BigUint64Array.from(
  { length: TIERS.length * PER_TIER },
  (_, at) => 0xfeed_0000_0000_0001n + BigInt(at),
);

const named = (from: number, to: number) => fromBigUint64Array(NAMES.slice(from, to));

/** A store of the tier's four blocks, each tier's behind those of the one before. */
function stored(tier: Tier): KvEvent {
  const from = TIERS.indexOf(tier) * PER_TIER;
  const [lo = 0, hi = 0] = from === 0 ? [] : named(from - 1, from);
  return {
    kind: 'stored',
    external: named(from, from + PER_TIER),
    parent: from === 0 ? null : { lo, hi },
    tokenIds: Uint32Array.from(PROMPT.slice(from * BLOCK, (from + PER_TIER) * BLOCK)),
    blockSize: BLOCK,
    tier,
    loraName: null,
    cacheSalt: null,
    sessionId: null,
  };
}

function removed(tier: Tier, blocks = PER_TIER): KvEvent {
  const from = TIERS.indexOf(tier) * PER_TIER;
  return { kind: 'removed', tier, external: named(from, from + blocks) };
}

/** What /workers and the metrics say of each tier, once they agree. */
async function tiersReach(router: Serving, wanted: Readonly<Record<Tier, number>>): Promise<void> {
  await eventually(`the tiers are ${JSON.stringify(wanted)}`, async () => {
    const workers = JSON.parse(await (await fetch(`${router.admin}/workers`)).text()) as {
      readonly id: number;
      readonly ranks: readonly { readonly blocks: Record<Tier, number> }[];
    }[];
    const blocks = workers.find(({ id }) => id === 1)?.ranks[0]?.blocks;
    return TIERS.every((tier) => blocks?.[tier] === wanted[tier]) ? true : undefined;
  });
  for (const tier of TIERS) {
    expect(await metric(router.admin, `pointsman_kv_index_worker_blocks{tier="${tier}"}`)).toBe(wanted[tier]);
  }
}

/** Url of the indexer in a router's process; undefined until it is said. */
function indexerOf(router: Serving): string | undefined {
  const line = router
    .log()
    .split('\n')
    .find((entry) => entry.includes('the indexer is up'));
  return line === undefined ? undefined : (JSON.parse(line) as { url: string }).url;
}

/** What the indexer says of worker 1; undefined while it knows nothing. */
async function scoresOf(indexer: string): Promise<object | undefined> {
  const body = JSON.stringify({ model_name: 'tiny', token_ids: PROMPT });
  const answer = await fetch(`${indexer}/query`, { method: 'POST', body });
  return ((await answer.json()) as { instances?: Record<string, object> }).instances?.['1'];
}

/** What a prompt found on worker 1, and what the cost made of it. */
async function found(router: Serving) {
  const { requestId, worker } = await complete(router.url, PROMPT, {}, ',"model":"tiny"');
  const { candidates, prediction } = await decisionOf(router, requestId);
  const row = candidates.find((candidate) => Number(candidate.worker_id) === 1);
  if (row?.eligible !== true) throw new Error('worker 1 is no candidate');
  return { worker, overlap: row.overlap_blocks, credit: row.terms?.credit, prediction };
}

it('blocks on device, host, disk and external tiers are seen, weighed, predicted and given up by tier', async () => {
  const { engines } = await simulators(2);
  const [first, second] = engines;
  if (first === undefined || second === undefined) throw new Error('two engines were asked for');
  const link = await eventLink(first);
  const workers = [{ url: first.url, kvEvents: link.endpoint }, { url: second.url }];
  const router = await serve({ 'router.yaml': routerYaml(workers, 'services: { indexer: { port: 0 } }') });
  const indexer = await eventually('the indexer is up', async () => indexerOf(router));
  // From here on all that is heard is the test's own; the engine does not know of these blocks.
  link.cut();
  // Until a subscription stands its publisher drops everything: what is told again is what was told.
  await eventually('its events are heard', async () => {
    await link.publish([{ kind: 'cleared' }, ...TIERS.map(stored)]);
    const isHeard = (await metric(router.admin, 'pointsman_kv_index_worker_blocks{tier="external"}')) > 0;
    return isHeard && (await scoresOf(indexer)) !== undefined ? true : undefined;
  });
  await tiersReach(router, { device: 4, host: 4, disk: 4, external: 4 });
  expect(await metric(router.admin, 'pointsman_kv_index_blocks')).toBe(16);

  const tokens = PER_TIER * BLOCK;
  expect(await scoresOf(indexer)).toEqual({
    gpu: tokens,
    cpu: 2 * tokens,
    disk: 3 * tokens,
    dp: { 0: tokens },
    longest_matched: 3 * tokens,
  });

  // Disk and what lies beyond count as one: 4 + 0.75 × 4 + 0.25 × 8.
  expect(await found(router)).toEqual({
    worker: '1:0',
    overlap: { device: 4, host: 4, disk: 8, shared: 0 },
    credit: 9,
    prediction: {
      cached_tokens: 8 * BLOCK,
      cached_by_tier: { device: 4 * BLOCK, host: 4 * BLOCK },
      with_hints_tokens: 8 * BLOCK,
    },
  });

  // Without a block in host memory what lies behind it cannot be reached, whatever tier it is on.
  await link.publish([removed('host', 1), removed('disk')]);
  await tiersReach(router, { device: 4, host: 3, disk: 0, external: 4 });
  expect(await found(router)).toMatchObject({
    overlap: { device: 4, host: 0, disk: 0, shared: 0 },
    credit: 4,
    prediction: { cached_tokens: tokens, cached_by_tier: { device: tokens, host: 0 } },
  });
  await link.publish([{ kind: 'cleared' }]);
  await tiersReach(router, { device: 0, host: 0, disk: 0, external: 0 });
});
