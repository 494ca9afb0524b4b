// A cost in milliseconds: the wait for prompts booked before, the prefill of what is neither cached nor in flight, weighed by what it
// delays, and decoding. The formula stands in README.md.
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  scoreWorkers,
  type WorkerScorer,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';
import { ExpectedTime } from './expected-time.ts';
import { type ExpectedTimeParameters, expectedTimeParameters } from './parameters.ts';
import { statesAll } from './times.ts';

/** `pointsman-expected-time`: the worker where the request, and those that it meets there, lose the least time. */
export const pointsmanExpectedTime: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'pointsman-expected-time',
  exclusiveAffinity: true,
  parameters: expectedTimeParameters,
  create: ({ parameters, rng }) => ({ scorers: [scorerOf(parameters)], picker: pickLowestCost(rng) }),
});

/** Where an operator states all times, nobody need learn them. */
function scorerOf(parameters: ExpectedTimeParameters): WorkerScorer {
  const time = new ExpectedTime(parameters);
  if (statesAll(parameters.timing)) {
    return scoreWorkers({
      inputs: ['cache', 'in-flight-blocks', 'request-phases', 'output-length', 'preferred-taint'],
      score: (candidates, costs, request) => time.score(candidates, null, costs, request),
    });
  }
  return scoreWorkers({
    inputs: ['cache', 'in-flight-blocks', 'request-phases', 'output-length', 'timing', 'preferred-taint'],
    score: (candidates, costs, request) => time.score(candidates, candidates.timing, costs, request),
  });
}
