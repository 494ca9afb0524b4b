// One thread of the soak of the prefix index: leads the lives it is told to.
import { parentPort } from 'node:worker_threads';
import { LIFE_KINDS, leadLife } from './index-lives.ts';
import type { LifeOrder, LifeReport } from './index-soak.ts';

parentPort?.on('message', ({ life, operations, seed }: LifeOrder) => {
  const say = (report: LifeReport): void => parentPort?.postMessage(report);
  const kind = LIFE_KINDS[life % LIFE_KINDS.length]!;
  try {
    const tally = leadLife(kind, { operations, seed, progress: (done) => say({ life, done }) });
    say({ life, done: operations, tally });
  } catch (thrown) {
    say({ life, done: 0, fault: thrown instanceof Error ? thrown.message : String(thrown) });
  }
});
