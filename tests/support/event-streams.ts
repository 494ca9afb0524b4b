// What a running router says of its workers' event streams.
import { eventually, type Serving } from './live-processes.ts';

/** A worker with one rank, as `/workers` shows it, as far as tests look at it. */
export interface HeardWorker {
  readonly state: string;
  /** Which life of its engine; null = it has not said. */
  readonly epoch: string | null;
  readonly stream: {
    readonly connected: boolean;
    readonly state: string | null;
    readonly replay_endpoint: string | null;
    readonly replays: { readonly answered: number } | null;
    readonly missed_batches: number;
    readonly replayed_batches: number;
  };
}

/** The workers by place. */
export async function workersOf({ admin }: Serving): Promise<readonly HeardWorker[]> {
  const said = JSON.parse(await (await fetch(`${admin}/workers`)).text()) as {
    state: string;
    capabilities: { epoch: string } | null;
    ranks: { kv_events: HeardWorker['stream'] }[];
  }[];
  return said.map(({ state, capabilities, ranks: [rank] }) => {
    if (rank === undefined) throw new Error('a worker has no rank');
    return { state, epoch: capabilities?.epoch ?? null, stream: rank.kv_events };
  });
}

/** What `/ready` warns of. */
export async function warningsOf({ admin }: Serving): Promise<readonly string[]> {
  const { warnings } = (await (await fetch(`${admin}/ready`)).json()) as { warnings: string[] };
  return warnings;
}

/** Waits until every engine has told what it published before. */
export async function caughtUp(router: Serving): Promise<readonly HeardWorker[]> {
  return eventually('every stream is exact', async () => {
    const workers = await workersOf(router);
    const isExact = ({ stream: { connected, state, replays } }: HeardWorker) =>
      connected && state === 'exact' && (replays?.answered ?? 0) > 0;
    return workers.every(isExact) ? workers : undefined;
  });
}
