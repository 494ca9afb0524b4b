// Components see what they declared, as copies of this decision.
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  ManualClock,
  NO_LOG,
  pickWorker,
  scoreEachWorker,
  scoreWorkers,
  type WorkerSelectionPolicy,
} from '../plugin/index.ts';
import { testWorkerSelection } from '../testing/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { createSoloRuntime } from './solo-runtime.ts';

const FACTS = selectionFacts(32);

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
    const definition = policy(() => ({ scorers: [vandal, byRequests], picker: first }));
    const runtime = await createSoloRuntime({
      selection: { definition },
      partition: { model: 'm', routingGroup: 'default' },
      role: 'aggregated',
      blockSize: 16,
      clock: new ManualClock(),
      seed: 1,
      log: NO_LOG,
      fleet: { workerOfSlot: () => null, slotRank: () => -1 },
    });
    const table = createCandidateTable(1);
    table.count = 1;
    table.activeRequests[0] = 1;
    const costs = () => runtime.select(table, FACTS).costs[0];
    // Seen by the policy's own later component, gone by the next decision over the same table.
    expect([costs(), costs(), table.activeRequests[0]]).toEqual([99, 1, 1]);
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
