// Components see what they declared, as copies of this decision.
import { describe, expect, it } from 'vitest';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  pickWorker,
  scoreEachWorker,
  scoreWorkers,
  type WorkerSelectionPolicy,
} from '../plugin/index.ts';
import { testWorkerSelection } from '../testing/index.ts';

const policy = (create: () => WorkerSelectionPolicy) => defineWorkerSelectionPolicy({ type: 'mine', create });
const first = pickWorker({ pick: () => 0 });
const byRequests = scoreEachWorker({ inputs: ['load'], cost: ({ load }) => load.activeRequests });

describe('what a component sees', () => {
  it('is what it declared and nothing else', async () => {
    const seen: string[][] = [];
    const look = (object: object): boolean => {
      const names: string[] = [];
      for (const name of ['cache', 'load', 'occupancy', 'preferredTaintMultiplier']) {
        if (name in object) names.push(name);
      }
      seen.push(names);
      return true;
    };
    await testWorkerSelection(
      policy(() => ({
        filters: [filterWorkers({ inputs: ['occupancy'], keep: (one) => look(one) })],
        scorers: [
          scoreWorkers({ inputs: ['cache'], score: (all, costs) => void costs.fill(look(all) ? 1 : 2) }),
        ],
        picker: pickWorker({ inputs: ['load'], pick: (table) => (look(table) ? 0 : 1) }),
      })),
      { candidates: [{}] },
    );
    expect(seen).toEqual([['occupancy'], ['cache'], ['load']]);
  });

  it('is null where what it declared is switched off', async () => {
    const seen: unknown[] = [];
    await testWorkerSelection(
      policy(() => ({
        filters: [
          filterWorkers({ inputs: ['session-lineage'], keep: ({ lineage }) => seen.push(lineage) > 0 }),
        ],
        scorers: [
          scoreEachWorker({ inputs: ['session-lineage'], cost: ({ lineage }) => seen.push(lineage) }),
        ],
        picker: pickWorker({ inputs: ['session-lineage'], pick: ({ lineage }) => seen.push(lineage) - 3 }),
      })),
      { candidates: [{}] },
    );
    expect(seen).toEqual([null, null, null]);
  });

  it('is a copy: writing to a column changes nothing outside the policy', async () => {
    let calls = 0;
    const vandal = scoreWorkers({
      inputs: ['load'],
      score({ load }, costs) {
        calls += 1;
        if (calls === 1) Reflect.set(load.activeRequests, 0, 99);
        costs.fill(0);
      },
    });
    const result = await testWorkerSelection(
      policy(() => ({ scorers: [vandal, byRequests], picker: first })),
      { candidates: [{ load: { activeRequests: 1 } }], decisions: 2 },
    );
    // Seen by the policy's own later component, gone by the next decision over the same table.
    expect(result.decisions.map(({ costs }) => costs[0])).toEqual([99, 1]);
  });

  it('is exactly what the host prepares', async () => {
    const { needs } = await testWorkerSelection(
      policy(() => ({
        filters: [filterWorkers({ inputs: ['occupancy'], keep: () => true })],
        scorers: [byRequests],
        picker: first,
      })),
      { candidates: [{}] },
    );
    expect(Object.entries(needs).filter(([, needed]) => needed)).toEqual([
      ['load', true],
      ['occupancy', true],
    ]);
  });
});
