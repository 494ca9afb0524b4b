// A classifier alone, for tests: requests are begun by hand, events and log lines are kept.
import type { ContainmentSettings } from '../config/index.ts';
import { type MetricLabels, NO_METRICS } from '../observe/index.ts';
import {
  type ClassifierEvent,
  defineRequestClassifier,
  ManualClock,
  NO_LOG,
  type RequestClassifier,
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import type { ClassifierFacts, ClassifierOutcome, RequestLifecycle } from './classifier-types.ts';
import { PluginGuards } from './plugin-guard.ts';
import { createSoloClassifier } from './solo-classifier.ts';

export const PARTITION = { model: 'tiny', routingGroup: 'default' };

/** Options of {@link testStage}. */
export interface TestStageOptions {
  readonly policyClasses?: readonly string[];
  readonly maxWaitMs?: number;
  readonly tripped?: ContainmentSettings['tripped']['classifier'];
  readonly hold?: GenerationHold;
}

/** Lets promises go on as far as they can without time. */
export function promisesRan(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A stage around a classifier; `events` are those that were delivered to it. */
export async function testStage(
  make: (clock: ManualClock, events: ClassifierEvent[]) => RequestClassifier,
  options: TestStageOptions = {},
) {
  const clock = new ManualClock(1000);
  const events: ClassifierEvent[] = [];
  const errors: string[] = [];
  const counts: Record<string, number> = {};
  const log = {
    ...NO_LOG,
    error: (message: string, fields?: object) =>
      errors.push(`${message}: ${Reflect.get(fields ?? {}, 'error')}`),
  };
  const metrics = {
    ...NO_METRICS,
    count(name: string, { result, code }: MetricLabels = {}) {
      if (name !== 'pointsman_classifications_total') return;
      const key = [result, code].filter((part) => part !== '').join(' ');
      counts[key] = (counts[key] ?? 0) + 1;
    },
  };
  const definition = defineRequestClassifier({
    type: 'mine',
    create: () => {
      const made = make(clock, events);
      return {
        ...made,
        onEvent(event) {
          events.push(event);
          return made.onEvent?.(event);
        },
      };
    },
  });
  const guards = new PluginGuards({
    settings: {
      softBudgetMs: 0,
      watchdogMs: 10_000,
      breaker: { failures: 3, overruns: 3, windowMs: 30_000, skipMs: 10_000 },
      tripped: { classifier: options.tripped ?? 'pass-through', workerSelection: 'default' },
    },
    clock,
    wallMs: null,
    running: null,
    metrics,
    log: NO_LOG,
  });
  const solo = await createSoloClassifier({
    definition,
    partition: PARTITION,
    blockSize: 16,
    maxWaitMs: options.maxWaitMs ?? 60_000,
    clock,
    seed: 1,
    log,
    metrics,
    guards,
    ...(options.hold === undefined ? {} : { hold: options.hold }),
    ...(options.policyClasses === undefined ? {} : { policyClasses: options.policyClasses }),
  });
  const stage = solo.classifierFor(PARTITION);
  if (stage === null) throw new Error('the classifier is not asked');
  const begin = (requestId: string, facts: Partial<ClassifierFacts> = {}) => {
    const lifecycle = stage.begin({
      requestId,
      session: null,
      promptTokens: 100,
      policyClass: null,
      arrivedAt: clock.now(),
      pinnedWorker: null,
      ...facts,
    });
    const outcomes: ClassifierOutcome[] = [];
    lifecycle.classify((outcome) => outcomes.push(outcome));
    return { lifecycle, outcomes, outcome: () => outcomeText(outcomes) };
  };
  return { clock, events, errors, counts, solo, stage, begin, guards };
}

/** `waiting`, `classified`, `over`, or the code of a refusal. */
export function outcomeText(outcomes: readonly ClassifierOutcome[]): string {
  const texts = outcomes.map((one) => (one.kind === 'refused' ? one.error.code : one.kind));
  return texts.join(' ') || 'waiting';
}

export const WORKER = { workerId: 1n, rank: 0 };

/** A whole life on worker 1. */
export function complete(lifecycle: RequestLifecycle): void {
  lifecycle.sent(WORKER);
  lifecycle.responding(WORKER);
  lifecycle.completed(WORKER);
}
