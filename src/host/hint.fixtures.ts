// A booking and the worker it was made on, for tests of the hint stage and of what lies around it.
import type { HintBooking, HintFleet } from './index.ts';

/** 100 tokens booked on rank 0 of worker 7, of which nothing is cached anywhere. */
export function hintBooking(changes: Partial<HintBooking> = {}): HintBooking {
  return {
    requestId: 'req-1',
    slot: 0,
    workerId: 7n,
    rank: 0,
    role: 'aggregated',
    partition: { model: 'tiny', routingGroup: 'default' },
    promptTokens: 100,
    blockSize: 16,
    session: null,
    hashes: null,
    match: null,
    index: null,
    incomingHint: null,
    ...changes,
  };
}

/** Worker 7 alone, in every slot. */
export function hintFleet({
  rank = 0,
  routerHint = true,
  actions = null,
}: {
  readonly rank?: number;
  readonly routerHint?: boolean;
  /** Null = it takes every action. */
  readonly actions?: readonly string[] | null;
} = {}): HintFleet {
  return {
    slotRank: () => rank,
    workerOfSlot: () => ({
      spec: { id: 7n },
      state: 'ready',
      capabilities: {
        epoch: 'e',
        model: 'tiny',
        workerType: 'aggregated',
        blockSize: 16,
        hashScheme: 's',
        reportsOutcomes: false,
        ranks: new Map([
          [rank, { routerHint, actions: actions && new Set(actions), sourceControlEndpoint: null }],
        ]),
      },
    }),
  };
}
