// What the prefix index learns from the fleet: who a slot belongs to, and whose blocks are gone.
import type { Fleet, Worker } from '../fleet/index.ts';
import type { PrefixIndex } from '../kv/index.ts';

/** Makes the index forget what lost and restarted engines hold no more. */
export function followFleet(index: PrefixIndex, fleet: Fleet): void {
  const clear = (worker: Worker): void => {
    for (const slot of worker.slots) index.clear(slot, 'all');
  };
  fleet.listen({
    added(worker) {
      for (const slot of worker.slots) index.bindOwner(slot, worker.spec.id);
    },
    stateChanged(worker) {
      if (worker.state === 'gone') clear(worker);
    },
    removed: (worker) => index.removeWorker(worker.spec.id),
    restarted: clear,
  });
}
