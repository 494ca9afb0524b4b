// The properties a host expects of every request classifier, tried under a load of many requests at once that come, wait, end and
// leave at random times.
import { errorText, type RequestClassifierDefinition, type Rng, seededRng } from '../plugin/index.ts';
import {
  type ClassifierTrial,
  type ClassifierTrialOptions,
  type TrialClassifyRequest,
  type TrialedRequest,
  testClassifier,
} from './classifier-trial.ts';

/**
 * - `valid`: `classify` fails for no request, whatever else waits, ends or leaves meanwhile; refusing is no failure.
 * - `no-starvation`: each request is classified or refused within `patienceMs`, also when others leave while they wait.
 * - `one-terminal`: `onEvent` ends, so that each request gets its one terminal event.
 * - `repeatable`: the same requests at the same times get the same answers: neither `Date.now` nor `Math.random` decides.
 */
export type ClassifierProperty = 'valid' | 'no-starvation' | 'one-terminal' | 'repeatable';

/** A property that did not hold. */
export interface ClassifierFault {
  readonly property: ClassifierProperty;
  /** What happened, for which request. */
  readonly message: string;
}

/** What {@link checkClassifier} works with; times in ms. */
export interface ClassifierCheck extends ClassifierTrialOptions {
  /** Which to check; default all. */
  readonly properties?: readonly ClassifierProperty[];
  /** Requests sent; default 200. */
  readonly requests?: number;
  /** The request at an index; default: 100 to 4,000 tokens, in turn from four sessions. */
  readonly request?: (index: number, rng: Rng) => TrialClassifyRequest;
  /** Mean time between two arrivals; default 20. */
  readonly arrivalMs?: number;
  /** Mean time from classification to the end of the answer; default 200. */
  readonly serviceMs?: number;
  /** Share of requests whose client leaves early, 0 to 1; default 0.1. */
  readonly leaving?: number;
  /** A request that waits longer is starved; default 30,000. Below `maxWaitMs`, so that the router's own limit does not hide it. */
  readonly patienceMs?: number;
}

interface Sent {
  readonly request: TrialedRequest;
  ended: boolean;
}

/** Of one run: what was answered, and the faults. */
interface LoadRun {
  readonly answers: readonly string[];
  readonly faults: readonly ClassifierFault[];
}

const ALL: readonly ClassifierProperty[] = ['valid', 'no-starvation', 'one-terminal', 'repeatable'];

/**
 * Checks the properties; answers those that do not hold, each at most once, so an empty list when all is well.
 *
 * @throws as testClassifier
 * @example
 * expect(await checkClassifier(tenantFair)).toEqual([]);
 */
export async function checkClassifier(
  definition: RequestClassifierDefinition,
  check: ClassifierCheck = {},
): Promise<readonly ClassifierFault[]> {
  const { properties = ALL } = check;
  const first = await run(definition, check);
  const found = new Map<ClassifierProperty, string>();
  const tell = ({ property, message }: ClassifierFault): void => {
    if (properties.includes(property) && !found.has(property)) found.set(property, message);
  };
  for (const fault of first.faults) tell(fault);
  if (properties.includes('repeatable')) {
    const second = await run(definition, check);
    const at = first.answers.findIndex((answer, index) => answer !== second.answers[index]);
    if (at >= 0) {
      const message = `the same request was first answered "${first.answers[at]}", then "${second.answers[at]}"`;
      tell({ property: 'repeatable', message });
    }
  }
  return [...found].map(([property, message]) => ({ property, message }));
}

async function run(definition: RequestClassifierDefinition, check: ClassifierCheck): Promise<LoadRun> {
  const { requests = 200, arrivalMs = 20, serviceMs = 200, leaving = 0.1, patienceMs = 30_000 } = check;
  const rng = seededRng(check.seed ?? 1);
  const trial = await testClassifier(definition, check);
  const make = check.request ?? ordinary;
  const sent: Sent[] = [];
  const faults: ClassifierFault[] = [];
  let arrivesAt = trial.clock.now();
  for (let index = 0; index < requests; index += 1) {
    arrivesAt += exponential(rng, arrivalMs);
    const given = make(index, rng);
    const leavesAfter = rng.next() < leaving ? exponential(rng, serviceMs) : null;
    const lasts = exponential(rng, serviceMs);
    trial.clock.schedule(arrivesAt - trial.clock.now(), () => {
      try {
        const entry = { request: trial.send(given), ended: false };
        sent.push(entry);
        play(trial, entry, lasts, leavesAfter);
      } catch (thrown) {
        const message = `request ${index} could not be sent: ${errorText(thrown)}`;
        faults.push({ property: 'valid', message });
      }
    });
  }
  await trial.advance(arrivesAt - trial.clock.now() + patienceMs);
  for (const entry of sent) faults.push(...faultsOf(entry, patienceMs));
  for (const { request } of sent) request.abort();
  await trial.settle();
  faults.push(...terminalFaults(trial, sent));
  await trial.close();
  return { answers: sent.map(({ request }) => answerText(request)), faults };
}

/** Lets a request go through its life once it is classified. */
function play(trial: ClassifierTrial, entry: Sent, lasts: number, leavesAfter: number | null): void {
  const { clock } = trial;
  const { request } = entry;
  const end = (how: () => void): void => {
    if (entry.ended) return;
    entry.ended = true;
    how();
  };
  if (leavesAfter !== null) clock.schedule(leavesAfter, () => end(() => request.abort()));
  void request.answered.then(() => {
    if (request.state !== 'classified') {
      entry.ended = true;
      return;
    }
    request.sent();
    clock.schedule(lasts / 2, () => request.responding());
    clock.schedule(lasts, () => end(() => request.complete(100)));
  });
}

function faultsOf({ request, ended }: Sent, patienceMs: number): ClassifierFault[] {
  const { requestId, state, error, waitedMs } = request;
  if (state === 'failed') {
    return [{ property: 'valid', message: `classify failed for ${requestId}: ${error}` }];
  }
  const starved = !ended && state === 'waiting';
  if (!starved && (waitedMs ?? 0) <= patienceMs) return [];
  return [{ property: 'no-starvation', message: `${requestId} waited longer than ${patienceMs} ms` }];
}

function terminalFaults({ events }: ClassifierTrial, sent: readonly Sent[]): ClassifierFault[] {
  // A classifier with nothing to ask and nothing to tell is told of nothing.
  if (events.length === 0) return [];
  const ends = new Map<string, number>();
  for (const { kind, requestId } of events) {
    if (kind === 'completed' || kind === 'aborted') ends.set(requestId, (ends.get(requestId) ?? 0) + 1);
  }
  return sent
    .map(({ request }) => [request.requestId, ends.get(request.requestId) ?? 0] as const)
    .filter(([, count]) => count !== 1)
    .map(([id, count]) => ({
      property: 'one-terminal',
      message: `${id} had ${count} terminal events: each event waits until onEvent is done with the one before`,
    }));
}

function answerText({ requestId, state, overrides, waitedMs, refusal }: TrialedRequest): string {
  const { policyClass, dueAt, schedulingCostTokens, workerTarget } = overrides;
  const target = workerTarget && `${workerTarget.workerId}/${workerTarget.rank}`;
  return [requestId, state, waitedMs, refusal?.code, policyClass, dueAt, schedulingCostTokens, target]
    .map(String)
    .join(' ');
}

function ordinary(index: number, rng: Rng): TrialClassifyRequest {
  const session = { sessionId: `s${index % 4}`, agentHeaders: {} };
  return { session, inputTokens: 100 + rng.integer(3900) };
}

function exponential(rng: Rng, mean: number): number {
  return -Math.log(1 - rng.next()) * mean;
}
