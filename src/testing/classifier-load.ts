// What a host expects of every request classifier, checked under a load of many requests at once: each gets an answer in time, each
// ends once, and the same requests at the same times get the same answers.
import { errorText, type RequestClassifierDefinition, type Rng, seededRng } from '../plugin/index.ts';
import {
  type ClassifierTrial,
  type ClassifierTrialOptions,
  type TrialClassifyRequest,
  type TrialedRequest,
  testClassifier,
} from './classifier-trial.ts';

/** A load; everything has a default. Times in ms. */
export interface ClassifierLoad extends ClassifierTrialOptions {
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

/** What came of a load. */
export interface ClassifierLoadReport {
  /** Broken expectations in words; empty when all is well. */
  readonly problems: readonly string[];
  readonly classified: number;
  readonly refused: number;
  /** Whose client left before the classification. */
  readonly left: number;
  readonly longestWaitMs: number;
}

interface Sent {
  readonly request: TrialedRequest;
  ended: boolean;
}

/**
 * Sends requests at random times, plays their lives, and checks: `classify` fails for none; none waits longer than `patienceMs`; each
 * has exactly one terminal event; a second run gives the same answers, so that neither `Date.now` nor `Math.random` decides.
 *
 * @throws as testClassifier
 * @example
 * const { problems } = await loadClassifier(tenantFair, { parameters: { tokens_per_second: 100_000 } });
 * expect(problems).toEqual([]);
 */
export async function loadClassifier(
  definition: RequestClassifierDefinition,
  load: ClassifierLoad = {},
): Promise<ClassifierLoadReport> {
  const first = await run(definition, load);
  const second = await run(definition, load);
  const at = first.answers.findIndex((answer, index) => answer !== second.answers[index]);
  if (at < 0) return first.report;
  const problem = `the same load was answered differently: first "${first.answers[at]}", then "${second.answers[at]}"`;
  return { ...first.report, problems: [...first.report.problems, problem] };
}

async function run(definition: RequestClassifierDefinition, load: ClassifierLoad) {
  const { requests = 200, arrivalMs = 20, serviceMs = 200, leaving = 0.1, patienceMs = 30_000 } = load;
  const rng = seededRng(load.seed ?? 1);
  const trial = await testClassifier(definition, load);
  const make = load.request ?? ordinary;
  const sent: Sent[] = [];
  const problems: string[] = [];
  let arrivesAt = trial.clock.now();
  for (let index = 0; index < requests; index += 1) {
    arrivesAt += exponential(rng, arrivalMs);
    const given = make(index, rng);
    const leavesAfter = rng.next() < leaving ? exponential(rng, serviceMs) : null;
    const lasts = exponential(rng, serviceMs);
    trial.clock.schedule(arrivesAt - trial.clock.now(), () => {
      try {
        const request = trial.send(given);
        const entry = { request, ended: false };
        sent.push(entry);
        play(trial, entry, lasts, leavesAfter);
      } catch (thrown) {
        problems.push(`request ${index} could not be sent: ${errorText(thrown)}`);
      }
    });
  }
  await trial.advance(arrivesAt - trial.clock.now() + patienceMs);
  problems.push(...sent.flatMap((entry) => problemsOf(entry, patienceMs)));
  for (const { request } of sent) request.abort();
  await trial.settle();
  problems.push(...terminalProblems(trial, sent));
  await trial.close();
  const count = (state: TrialedRequest['state']) =>
    sent.filter(({ request }) => request.state === state).length;
  return {
    answers: sent.map(({ request }) => answerText(request)),
    report: {
      problems,
      classified: count('classified'),
      refused: count('refused'),
      left: count('left'),
      longestWaitMs: Math.max(0, ...sent.map(({ request }) => request.waitedMs ?? 0)),
    },
  };
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

function problemsOf({ request, ended }: Sent, patienceMs: number): string[] {
  const { requestId, state, error, waitedMs } = request;
  if (state === 'failed') return [`classify failed for ${requestId}: ${error}`];
  const starved = !ended && state === 'waiting';
  if (!starved && (waitedMs ?? 0) <= patienceMs) return [];
  return [
    `${requestId} waited longer than ${patienceMs} ms: a request that waits must be answered or refused`,
  ];
}

function terminalProblems({ events }: ClassifierTrial, sent: readonly Sent[]): string[] {
  const ends = new Map<string, number>();
  for (const { kind, requestId } of events) {
    if (kind === 'completed' || kind === 'aborted') ends.set(requestId, (ends.get(requestId) ?? 0) + 1);
  }
  // A classifier with nothing to ask and nothing to tell is told of nothing.
  if (events.length === 0) return [];
  return sent
    .map(({ request }) => [request.requestId, ends.get(request.requestId) ?? 0] as const)
    .filter(([, count]) => count !== 1)
    .map(
      ([id, count]) => `${id} had ${count} terminal events: onEvent must end, or later requests wait for it`,
    );
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
  return { session, inputTokens: 100 + Math.floor(rng.next() * 3900) };
}

function exponential(rng: Rng, mean: number): number {
  return -Math.log(1 - rng.next()) * mean;
}
