// Long random lives of the prefix index beside the radix model, and hours of churn under a cap, for `npm run soak -- --index`. No
// benchmark: it measures nothing.
import { Worker } from 'node:worker_threads';
import { type ChurnState, churn } from '../src/kv/residency/index-churn.fixtures.ts';
import { type IndexLifeTally, noTally } from '../src/kv/residency/index-life-options.fixtures.ts';
import { LIFE_KINDS, nameOf } from './index-lives.ts';

/** Operations of one life: then a new one begins, of the next kind and seed. */
const LIFE = 250_000;

/** What a thread is told to do. */
export interface LifeOrder {
  readonly life: number;
  readonly seed: number;
  readonly operations: number;
}

/** What it says: how far it came, and at the end what happened or what differs. */
export interface LifeReport {
  readonly life: number;
  readonly done: number;
  readonly tally?: IndexLifeTally;
  readonly fault?: string;
}

/** What became of a soak: the same for the same operations and seed, however many threads led its lives. */
export interface SoakReport {
  readonly tally: IndexLifeTally;
  /** Of the first life in which the index and the model say different things; null = none. */
  readonly fault: string | null;
}

/** Leads lives of so many operations in all, on so many threads. */
export async function soakIndex(
  operations: number,
  seed: number,
  threads: number,
  report: (done: number) => void,
): Promise<SoakReport> {
  const lives = Math.ceil(operations / LIFE);
  const done = new Map<number, number>();
  const ended: LifeReport[] = [];
  let next = 0;
  const lead = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const thread = new Worker(new URL('./index-soak-thread.js', import.meta.url));
      const goOn = (): void => {
        // After a fault only the lives that are under way, all of them earlier ones than those left, go on to their end.
        if (next >= lives || ended.some(({ fault }) => fault !== undefined)) {
          void thread.terminate().then(() => resolve(), reject);
          return;
        }
        const life = next++;
        const order: LifeOrder = {
          life,
          seed: seed + life,
          operations: Math.min(LIFE, operations - life * LIFE),
        };
        thread.postMessage(order);
      };
      thread.on('message', (said: LifeReport) => {
        done.set(said.life, said.done);
        report([...done.values()].reduce((sum, of) => sum + of, 0));
        if (said.tally === undefined && said.fault === undefined) return;
        ended.push(said);
        goOn();
      });
      thread.on('error', reject);
      goOn();
    });
  await Promise.all(Array.from({ length: Math.min(threads, lives) }, lead));
  ended.sort((a, b) => a.life - b.life);
  const faulty = ended.find(({ fault }) => fault !== undefined);
  return {
    tally: summed(ended.flatMap(({ tally }) => tally ?? [])),
    fault:
      faulty === undefined
        ? null
        : `life ${faulty.life}, ${nameOf(LIFE_KINDS[faulty.life % LIFE_KINDS.length]!)}: ${faulty.fault}`,
  };
}

function summed(tallies: readonly IndexLifeTally[]): IndexLifeTally {
  const sum = noTally();
  for (const tally of tallies) for (const name of tallyNames(sum)) sum[name] += tally[name];
  return sum;
}

/** Names of what is counted. */
export function tallyNames(tally: IndexLifeTally): (keyof IndexLifeTally)[] {
  const isName = (name: string): name is keyof IndexLifeTally => name in tally;
  return Object.keys(tally).filter(isName);
}

/** Sizes of the churn: pools hold half as much again as 64 MiB of index do. */
const CHURN = { maxBytes: 64 * 2 ** 20, workers: 16, sessions: 6000, pool: 120_000 };

/**
 * Leads a churn of so many block events under a cap of 64 MiB.
 * @returns what must hold and does not: bytes at the end within 2 % of those after the first tenth, and the hit rate of the last tenth
 *   within 1 % of that of an index built anew.
 */
export function soakChurn(events: number, seed: number, print: (line: string) => void): string[] {
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const say = (name: string, { bytes, holdings, evicted, hitRate }: ChurnState): void =>
    print(
      `${name.padEnd(12)} ${bytes} bytes, ${holdings} held, ${evicted} evicted, hit rate ${percent(hitRate)}`,
    );
  const { tenths, fresh } = churn({
    ...CHURN,
    events,
    seed,
    progress: (tenth, state) => say(`tenth ${tenth}`, state),
  });
  say('built anew', fresh);
  const first = tenths[0]!;
  const last = tenths.at(-1)!;
  const growth = last.bytes / first.bytes - 1;
  const loss = 1 - last.hitRate / fresh.hitRate;
  print(`\nbytes ${percent(growth)} more than after the first tenth (at most 2 % either way)`);
  print(`hit rate ${percent(loss)} lower than that of an index built anew (at most 1 % either way)`);
  const most = Math.max(...tenths.map(({ bytes }) => bytes));
  print(`at most ${percent(most / CHURN.maxBytes)} of the cap`);
  const faults: string[] = [];
  if (most > CHURN.maxBytes) faults.push(`the index held ${most} bytes`);
  if (Math.abs(growth) > 0.02) faults.push(`bytes changed by ${percent(growth)}`);
  if (Math.abs(loss) > 0.01) faults.push(`the hit rate differs by ${percent(loss)}`);
  return faults;
}
