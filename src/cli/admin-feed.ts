// Live events for the admin API: decisions as they are taken and completed, workers as they change.
import type { AdminEvent, AdminEvents } from '../admin/index.ts';
import type { Fleet, Worker } from '../fleet/index.ts';
import type { DecisionRing } from '../observe/index.ts';

/** A source over a router's decisions and fleet; listens only while somebody watches. */
export function adminFeed(fleet: Fleet, decisions: DecisionRing | null): AdminEvents {
  return {
    subscribe(listener) {
      const worker = (change: string) => (changed: Worker) => listener(workerEvent(change, changed));
      const stopFleet = fleet.listen({
        added: worker('added'),
        removed: worker('removed'),
        stateChanged: worker('state'),
        capabilitiesChanged: worker('capabilities'),
        restarted: worker('restarted'),
      });
      const stopDecisions = decisions?.onDecision((phase, record) => {
        const { candidates: _, ...summary } = record;
        listener({ type: 'decision', data: { phase, ...summary } });
      });
      return () => {
        stopFleet();
        stopDecisions?.();
      };
    },
  };
}

function workerEvent(change: string, { spec, state }: Worker): AdminEvent {
  return { type: 'worker', data: { change, id: spec.id, model: spec.model, url: spec.url, state } };
}
