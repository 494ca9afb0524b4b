// kv_fetch through the real stage, hasher and prefix index: what stands in the payload is what the source announced.
import { expect, it } from 'vitest';
import { createBlockHasher, createPrefixIndex, fromBigUint64Array, ROUTER_SEED } from '../kv/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { kvFetch } from '../policies/index.ts';
import { createSoloRuntime, type HintBooking, type HintFleet } from './index.ts';

const BLOCK = 16;
const partition = { model: 'tiny', routingGroup: 'default' };
const WORKERS = [11n, 12n, 2n ** 64n - 1n];

const fleet: HintFleet = {
  slotRank: () => 0,
  workerOfSlot(slot) {
    const id = WORKERS[slot];
    if (id === undefined) return null;
    const rank = { routerHint: true, actions: null, sourceControlEndpoint: `tcp://127.0.0.1:${slot}` };
    const capabilities = {
      epoch: 'e',
      model: 'tiny',
      workerType: 'aggregated',
      blockSize: BLOCK,
      hashScheme: 'sim',
      reportsOutcomes: true,
      ranks: new Map([[0, rank]]),
    };
    return { spec: { id }, state: 'ready', capabilities };
  },
};

/** The hash an engine announces: its own, beyond 2^63, unlike the router's. */
const announced = (slot: number, block: number): bigint => 2n ** 64n - 1n - BigInt(slot * 100 + block);

it('names the source’s announced hashes from the root, whatever the router calls them', async () => {
  const tokens = Uint32Array.from({ length: 5 * BLOCK }, (_, at) => at * 7);
  const hasher = createBlockHasher();
  const hashes = hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED);
  const index = createPrefixIndex({ hasher });
  const hold = (slot: number, blocks: number) => {
    index.bindOwner(slot, WORKERS[slot]!);
    const external = BigUint64Array.from({ length: blocks }, (_, block) => announced(slot, block));
    const local = hashes.local.slice(0, blocks * 2);
    expect(index.store(slot, 'device', null, fromBigUint64Array(external), local)).toBe('stored');
  };
  hold(0, 2);
  hold(1, 3);
  hold(2, 5);
  const runtime = await createSoloRuntime({
    hints: [{ definition: kvFetch, parameters: { min_additional_blocks: 3 } }],
    partition,
    role: 'aggregated',
    blockSize: BLOCK,
    clock: new ManualClock(),
    seed: 1,
    log: NO_LOG,
    fleet,
  });
  const run = () => {
    const booking: HintBooking = {
      requestId: 'req-1',
      slot: 0,
      workerId: 11n,
      rank: 0,
      role: 'aggregated',
      partition,
      promptTokens: tokens.length,
      blockSize: BLOCK,
      session: null,
      hashes,
      match: index.find(hashes.local, hashes.sequence, ['device', 'host']),
      index,
      incomingHint: null,
    };
    return runtime.hintStage?.run(booking).hint;
  };
  expect(run()).toEqual({
    protocol_version: '0.1',
    message_id: 'req-1',
    actions: [
      {
        action_id: 'a1',
        action_type: 'kv.fetch',
        action_version: '1.0',
        payload: {
          source_control_endpoint: 'tcp://127.0.0.1:2',
          block_hashes: BigUint64Array.from({ length: 5 }, (_, block) => announced(2, block)),
        },
      },
    ],
  });

  index.removeWorker(WORKERS[2]!);
  // The next best adds one block only, and three are asked for.
  expect(run()).toBeNull();
});
