// What a picker may commit, and in which order a committed copy's actions stand.
import { describe, expect, it } from 'vitest';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  linearCostWithCopies,
  MAX_HINT_ACTIONS,
  ManualClock,
  NO_LOG,
  pickWorker,
  type WorkerSelectionPolicy,
} from '../plugin/index.ts';
import { kvFetch } from '../policies/index.ts';
import { testHintPolicy, testWorkerSelection } from '../testing/index.ts';
import { createSoloRuntime, type HintBooking, type HintFleet } from './index.ts';

const candidates = [
  { copies: { copyableBlocks: 0 } },
  { copies: { copyableBlocks: 3, sourcePrefixBlocks: 5 } },
];

const picking = (answer: unknown, commits = true) =>
  defineWorkerSelectionPolicy({
    type: 'mine',
    commitments: ['kv-copy'],
    commitsWhen: () => commits,
    create: () => ({ picker: pickWorker({ pick: () => answer as number }) }),
  });
const decide = async (answer: unknown, commits = true) =>
  (await testWorkerSelection(picking(answer, commits), { candidates })).decisions[0];

describe('a picker', () => {
  it('commits a copy to a row that has a source, or picks it plainly', async () => {
    expect(await decide({ row: 1, commitKvCopy: true })).toMatchObject({ row: 1, commitKvCopy: true });
    expect(await decide({ row: 1, commitKvCopy: false })).toMatchObject({ row: 1, commitKvCopy: false });
    expect(await decide(1)).toMatchObject({ row: 1, commitKvCopy: false });
  });

  it('may not commit to a row without a source, nor where the instance commits none', async () => {
    await expect(decide({ row: 0, commitKvCopy: true })).rejects.toMatchObject({
      code: 'PM_COMMIT_WITHOUT_SOURCE',
      message:
        'the picker of worker-selection policy mine committed a KV copy to row 0, but copies.copyableBlocks of that row is 0',
    });
    await expect(decide({ row: 1, commitKvCopy: true }, false)).rejects.toMatchObject({
      code: 'PM_COMMIT_WITHOUT_SOURCE',
    });
  });

  it.each<[string, unknown, string]>([
    ['a row out of range', { row: 2, commitKvCopy: true }, 'PM_SELECTION_INVALID_PICK'],
    ['no row', { commitKvCopy: true }, 'PM_SELECTION_INVALID_PICK'],
    ['a text for the commit', { row: 1, commitKvCopy: 'yes' }, 'PM_PLUGIN_INVALID'],
    ['no word on the commit', { row: 1 }, 'PM_PLUGIN_INVALID'],
    [
      'a getter that throws',
      {
        get row() {
          throw new Error('no');
        },
      },
      'PM_PLUGIN_THREW',
    ],
  ])('that answers %s is refused', async (_, answer, code) => {
    await expect(decide(answer)).rejects.toMatchObject({ code });
  });
});

it('a cost that credits copies needs the commitment', async () => {
  const made: WorkerSelectionPolicy<'kv-copy'> = {
    cost: linearCostWithCopies({ shared_cache_multiplier: 0.5 }),
  };
  const definition = defineWorkerSelectionPolicy({
    type: 'mine',
    create: () => made as WorkerSelectionPolicy,
  });
  await expect(testWorkerSelection(definition, { candidates })).rejects.toThrow(
    "create of worker-selection policy mine returned linearCostWithCopies without the commitment; declare commitments: ['kv-copy']",
  );
});

describe('a committed copy in the envelope', () => {
  const flood = defineHintPolicy({
    type: 'flood',
    create: () => ({
      buildHints: () =>
        Array.from({ length: MAX_HINT_ACTIONS }, () => ({ type: 'acme.mark', version: '1.0', payload: {} })),
    }),
  });

  it('has its room and its place before whatever others or a trusted caller send', async () => {
    const rank = { routerHint: true, actions: null, sourceControlEndpoint: 'tcp://peer:1' };
    const fleet: HintFleet = {
      slotRank: () => 0,
      workerOfSlot: (slot) => ({
        spec: { id: BigInt(slot + 1) },
        state: 'ready',
        capabilities: {
          epoch: 'e',
          model: 'm',
          workerType: 'w',
          blockSize: 16,
          hashScheme: 's',
          reportsOutcomes: false,
          ranks: new Map([[0, rank]]),
        },
      }),
    };
    const runtime = await createSoloRuntime({
      hints: [{ definition: flood }, { definition: kvFetch }],
      partition: { model: 'm', routingGroup: 'default' },
      role: 'aggregated',
      blockSize: 16,
      clock: new ManualClock(),
      seed: 1,
      log: NO_LOG,
      fleet,
    });
    const none = new Int32Array(1);
    const booking: HintBooking = {
      requestId: 'r',
      slot: 0,
      workerId: 1n,
      rank: 0,
      role: 'aggregated',
      partition: { model: 'm', routingGroup: 'default' },
      promptTokens: 64,
      blockSize: 16,
      session: null,
      hashes: { blocks: 4, local: new Uint32Array(8), sequence: new Uint32Array(8) },
      match: {
        count: 1,
        owners: Int32Array.of(1),
        depthPerTier: [Int32Array.of(3), none, none, none],
        version: 1,
      },
      index: { externalHashes: (_owner, _sequence, from, to) => to - from },
      incomingHint: {
        protocol_version: '0.1',
        message_id: 'theirs',
        actions: [{ action_id: 'x', action_type: 'kv.fetch', action_version: '1.0', payload: {} }],
      },
      commit: { sourceSlot: 1, prefixBlocks: 3, additionalBlocks: 3, stopOnFailure: false },
    };
    const result = runtime.hintStage?.run(booking);
    expect(result?.actionPolicies).toEqual(['kv_fetch', 'incoming']);
    expect(result?.hint?.message_id).toBe('theirs');
    expect(result?.commit).toEqual({
      source: { workerId: 2n, rank: 0 },
      prefixBlocks: 3,
      additionalBlocks: 3,
      failure: null,
    });
    expect(result?.policies.map(({ name, reason }) => [name, reason])).toEqual([
      ['kv_fetch', undefined],
      ['incoming', undefined],
      ['flood', 'no_room'],
    ]);
  });

  it('is sent by kv_fetch whatever its minimum', async () => {
    const { actions } = await testHintPolicy(kvFetch, {
      parameters: { min_additional_blocks: 9 },
      context: {
        copySources: [{ source: { workerId: 2n, rank: 0 }, blockHashes: [5n, 6n] }],
        committedSource: 0,
      },
    });
    expect(actions.map((one) => one.payload.block_hashes)).toEqual([BigUint64Array.of(5n, 6n)]);
  });
});
