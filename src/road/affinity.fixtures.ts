// A road whose policy takes workers in turn, so that only a binding keeps a session where it is.
import type { Metrics } from '../observe/index.ts';
import {
  defineWorkerSelectionPolicy,
  PointsmanError,
  pickWorker,
  type SessionContext,
} from '../plugin/index.ts';
import { REPORT, type TestRoadOptions, testRoad, workerSpec } from './road.fixtures.ts';

export const LOST = new PointsmanError('PM_ENGINE_LOST', 'worker closed the connection');

/** Takes candidates in turn, so that nobody stays anywhere by chance. */
export const rotating = (exclusiveAffinity: boolean) =>
  defineWorkerSelectionPolicy({
    type: 'rotating',
    exclusiveAffinity,
    create: () => {
      let turn = 0;
      return { picker: pickWorker({ pick: (candidates) => turn++ % candidates.count }) };
    },
  });

/** A request of a session. */
export const of = (sessionId: string, parentSessionId?: string): { session: SessionContext } => ({
  session: { sessionId, agentHeaders: {}, ...(parentSessionId === undefined ? {} : { parentSessionId }) },
});
/** The road, with what became of its sessions. */
export async function bound(mode: 'hard' | 'soft', options: TestRoadOptions = {}) {
  const counts: string[] = [];
  const metrics: Metrics = {
    count: (name, labels = {}) => {
      if (name === 'pointsman_session_affinity_total') counts.push(String(labels.outcome));
    },
    observe() {},
    gauge() {},
  };
  const road = await testRoad({
    workers: [1n, 2n, 3n].map((id) => workerSpec(id)),
    selection: { definition: rotating(true) },
    affinity: { mode },
    metrics,
    ...options,
  });
  const { clock, transport } = road;
  return {
    ...road,
    counts,
    tick: () => clock.advanceTo(clock.now()),
    sentTo: () => transport.dispatched.map(({ request }) => Number(request.worker.spec.id)),
    finish: (at = transport.dispatched.length - 1) => transport.dispatched[at]?.sink.finished(REPORT),
    outcome: (one: ReturnType<typeof road.arrive>) => one.record()?.affinity,
  };
}
