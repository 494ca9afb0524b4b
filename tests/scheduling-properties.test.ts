// What scheduling must hold whatever happens, and the tests that hold it, most of them against a naive model. A test that is renamed
// or taken away fails here.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

/** Statement, file, part of the test's title. */
const HELD: readonly (readonly [statement: string, file: string, title: string])[] = [
  // Invariants.
  [
    'slot totals are the sum of their requests; empty is exactly zero',
    'src/scheduling/slot-loads.test.ts',
    'equal a rebuild from the active bookings after any operations, and are exactly zero at the end',
  ],
  [
    'booked at most once, freed exactly once',
    'src/road/road.property.test.ts',
    'answers every request exactly once, accounts exactly for those under way, and ends empty',
  ],
  [
    'freeing what is not known changes nothing',
    'src/scheduling/slot-loads.test.ts',
    'changes nothing for an attempt that it does not know',
  ],
  [
    'prefill queue and its decay',
    'src/scheduling/active-prefills.test.ts',
    'equals a queue that keeps what is left of each, after any operations',
  ],
  [
    'membership of active prompts',
    'src/scheduling/active-prefixes.test.ts',
    'answers as a reference count and a weight per slot and hash do, after any operations',
  ],
  [
    'selection has no side effect',
    'src/scheduling/chosen-before.test.ts',
    'chooses as it would place, and books nothing',
  ],
  [
    'the result is an eligible candidate; pins, taints, allow-lists hold',
    'src/scheduling/eligibility.property.test.ts',
    'keeps to pin, allow-list, exclusions, adapter, taints and state, whatever a policy answers',
  ],
  [
    'queue counters and deficits',
    'src/scheduling/queue/policy-queue.test.ts',
    'goes as with plain lists: same order, deficits and sums, nobody lost or twice',
  ],
  [
    'blocked classes gain no credit',
    'src/scheduling/queue/policy-queue.test.ts',
    'grants blocked classes nothing, and they keep what they have',
  ],
  [
    'shutdown answers all',
    'src/road/admission-waits.test.ts',
    'ends with an answer for everybody when the road closes',
  ],
  [
    'the pending cache keeps to its caps',
    'src/services/selection/pending-selections.property.test.ts',
    'holds what a naive list holds',
  ],
  // Properties of the cost.
  [
    'monotone in load and overlap, never negative',
    'src/host/linear-cost.test.ts',
    'is never negative, grows with load and never grows with what is cached',
  ],
  [
    'softmax is not changed by scale',
    'src/host/row-choice.test.ts',
    'does not change when all costs are scaled, and is uniform over equal ones',
  ],
  [
    'towards temperature 0 it is the lowest cost',
    'src/host/row-choice.test.ts',
    'comes to the lowest row alone as the temperature falls to 0',
  ],
  [
    'order of candidates does not matter',
    'src/host/linear-cost.test.ts',
    'does not depend on the order of the candidates',
  ],
  [
    'ties are uniform',
    'src/host/row-choice.test.ts',
    'spreads ties uniformly: chi-square over 5 equal rows stays below the 0.1 % bound',
  ],
  [
    'taints are reciprocal',
    'src/host/linear-cost.test.ts',
    'undoes a taint with its opposite: multipliers of +w and −w are reciprocal',
  ],
  // Prefill decay.
  [
    'decay vectors',
    'src/scheduling/active-prefills.test.ts',
    'is what the queue has less what the front had time for, which goes on into those behind',
  ],
  [
    'decay vectors, not foreseen',
    'src/scheduling/active-prefills.test.ts',
    'falls only for the front while the time of any is not foreseen',
  ],
  [
    'a new front starts anew',
    'src/scheduling/active-prefills.test.ts',
    'starts the next one anew when the front is done',
  ],
  // Deficit round robin, order, limits.
  [
    'shares by quantum',
    'src/scheduling/queue/policy-queue.test.ts',
    'shares tokens by quantum while both classes wait, within one request of each',
  ],
  [
    'oversize heads go in one call',
    'src/scheduling/queue/policy-queue.test.ts',
    'lets a head go that costs more than any grant, in one call',
  ],
  [
    'first documented example',
    'src/scheduling/queue/policy-queue.test.ts',
    'a quantum of 10 lets three requests of 3 go before the next class',
  ],
  [
    'second documented example',
    'src/scheduling/queue/policy-queue.test.ts',
    'heads of 7000 and 9000 tokens: four rounds at once, and latency goes',
  ],
  [
    'strict tiers dominate',
    'src/scheduling/queue/order.test.ts',
    'lets a strict priority win over everything, a due time over the score, and earlier ones over later',
  ],
  [
    'fcfs and wspt',
    'src/scheduling/queue/order.test.ts',
    'is priority less arrival under fcfs, and weight by cost under wspt',
  ],
  ['first in first out', 'src/scheduling/queue/order.test.ts', 'takes equal keys first in, first out'],
  [
    'a blocked lane hides nobody',
    'src/scheduling/queue/order.test.ts',
    'is not hidden by a pin: a blocked lane leaves others their turn',
  ],
  [
    'nobody passes a backlog of the same class',
    'src/road/admission-queue.test.ts',
    'waits until a prompt is computed, in order of arrival, with its wait in record and metrics',
  ],
  [
    'limits before add',
    'src/scheduling/queue/limits.test.ts',
    'compares before it adds, so that the request that crosses a limit still gets in',
  ],
  [
    'limits per worker',
    'src/scheduling/queue/limits.test.ts',
    'is checked for requests, then prompt tokens, then cached ones, each per worker',
  ],
  [
    'limit of zero',
    'src/scheduling/queue/limits.test.ts',
    'lets nobody wait under a limit of 0, nor without workers',
  ],
  // Cancellation.
  [
    'at every await of the gateway',
    'tests/await-cancellation.test.ts',
    'leaves nothing behind, at whichever await of a door it does',
  ],
  [
    'at every await of the selection service',
    'tests/selection-aborts.test.ts',
    'leaves no booking and no claim, at whichever await of the service it does',
  ],
  [
    'between tries',
    'src/road/retry.property.test.ts',
    'get one answer of one worker or one error, and leave nothing behind',
  ],
  // Two-phase reservations.
  [
    'one booking per id',
    'src/services/selection/reservation-table.property.test.ts',
    'gives every id to one claim at a time, and forgets nothing and nobody twice',
  ],
  [
    'the newer entry stays',
    'src/services/selection/pending-selections.property.test.ts',
    'keeps the newer entry when one is selected again while the older is replayed',
  ],
  [
    'edge of expiry',
    'src/services/selection/pending-selections.property.test.ts',
    'keeps an entry at its age, and not a moment longer',
  ],
  [
    'oversize entry',
    'src/services/selection/pending-selections.property.test.ts',
    'gives up an entry that is too large, and everything older with it',
  ],
  // Disaggregation.
  [
    'forced overrides',
    'tests/disaggregated-requests.test.ts',
    'are booked as what they are: prompt tokens there, all blocks here, whatever is shared or cached',
  ],
  [
    'rooms',
    'src/road/disaggregation/bootstrap-room.test.ts',
    'leads to it by the remainder, and fits into 63 bits, for all sizes and ranks',
  ],
  [
    'required topology first',
    'tests/disaggregated-requests.test.ts',
    'required: keep the decode leg within, also where others are idle',
  ],
  // Modes.
  [
    'power of two: distinct',
    'src/policies/power-of-two/policy.test.ts',
    'never compares a candidate with itself: the busiest of all is never taken',
  ],
  [
    'power of two: fair',
    'src/policies/power-of-two/policy.test.ts',
    'is fair among equals: every candidate about as often',
  ],
  [
    'least loaded',
    'src/policies/least-loaded/policy.test.ts',
    'takes the fewest requests in flight and asks for occupancy alone',
  ],
  [
    'round robin',
    'src/policies/round-robin/policy.test.ts',
    'gives every worker its turn in order and asks for nothing',
  ],
  [
    'counters return to zero, and every worker has its share',
    'tests/known-scheduling-faults.test.ts',
    '#8551 gives every backend its share in mode %s, also when the set changes',
  ],
];

it.each(HELD)('%s', (_statement, file, title) => {
  const text = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
  expect(text.includes(title), `${file} has a test "${title}"`).toBe(true);
});
