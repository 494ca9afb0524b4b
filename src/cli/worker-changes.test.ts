// Workers that a changed configuration adds and removes.
import { expect, test } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { Fleet, workerSpecOf } from '../fleet/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { Scheduler } from '../scheduling/index.ts';
import { WorkerChanges } from './worker-changes.ts';

/** Workers by id, at port 9000 + id unless another is said. */
const workersOf = (...ids: readonly (number | { readonly id: number; readonly port: number })[]) => {
  const lines = ids.map((one) => {
    const { id, port } = typeof one === 'number' ? { id: one, port: 9000 + one } : one;
    return `  - { id: ${id}, url: "http://127.0.0.1:${port}", dialect: sim }\n`;
  });
  const list = lines.length === 0 ? 'workers: []\n' : `workers:\n${lines.join('')}`;
  return parseConfig(`models: { tiny: { tokens: { source: estimate } } }\n${list}`, 'router.yaml').config
    .workers;
};

function start(...ids: readonly number[]) {
  const clock = new ManualClock();
  const fleet = new Fleet();
  const hasher = createBlockHasher();
  const scheduler = new Scheduler({ fleet, fallback: null });
  const workers = workersOf(...ids);
  for (const worker of workers) fleet.add(workerSpecOf(worker, hasher));
  const changes = new WorkerChanges(
    { fleet, hasher, scheduler, clock, log: NO_LOG, drainMs: () => 30_000 },
    workers,
  );
  return {
    changes,
    clock,
    fleet,
    /** Books on a worker; answers how to release. */
    book(id: bigint): () => void {
      const slot = fleet.slotOf(id, 0);
      scheduler.loads.ensureCapacity(fleet.slotCapacity);
      const attempt = scheduler.loads.book(slot, null, 1, 1);
      return () => void scheduler.release(attempt);
    },
    states: () => fleet.workers().map(({ spec, state }) => `${spec.id} ${state} ${spec.url.slice(-4)}`),
    wait: (ms: number) => clock.advanceTo(clock.now() + ms),
  };
}

test('a new one joins at once, an idle one leaves at once, one that is not named in either stays', () => {
  const { changes, fleet, states } = start(10, 11);
  fleet.add({ ...fleet.worker(10n)!.spec, id: 99n, url: 'http://127.0.0.1:9099' });
  changes.follow(workersOf(11, 12));
  expect(states()).toEqual(['11 ready 9011', '12 ready 9012', '99 ready 9099']);
});

test('a busy one finishes what it has, for as long as limits.drain says', () => {
  const { book, changes, states, wait } = start(10, 11);
  const release = book(10n);
  book(11n);
  changes.follow(workersOf());
  expect(states()).toEqual(['10 draining 9010', '11 draining 9011']);
  wait(20_000);
  release();
  wait(100);
  expect(states()).toEqual(['11 draining 9011']);
  wait(9_900);
  expect(states()).toEqual([]);
});

test('one that comes back before it left takes bookings again', () => {
  const { book, changes, states, wait } = start(10);
  book(10n);
  changes.follow(workersOf());
  wait(1_000);
  changes.follow(workersOf(10));
  expect(states()).toEqual(['10 ready 9010']);
  wait(60_000);
  expect(states()).toEqual(['10 ready 9010']);
});

test('one that changes leaves first and then joins as what it is now', () => {
  const { book, changes, states, wait } = start(10);
  const release = book(10n);
  changes.follow(workersOf({ id: 10, port: 9500 }));
  expect(states()).toEqual(['10 draining 9010']);
  release();
  wait(100);
  expect(states()).toEqual(['10 ready 9500']);
});
