import { type ContractSection, fault, rule, test } from './rule.ts';

const EXPECTED_TIME = 'src/policies/pointsman-expected-time/policy.test.ts';
const TUNED_COST = 'src/policies/pointsman-tuned-cost/policy.test.ts';

/** Policies that reckon with times, or with blocks in flight. */
export const OWN_POLICY_RULES: ContractSection = {
  title: 'pointsman-expected-time and pointsman-tuned-cost',
  rules: [
    rule(
      'expected-time-formula',
      '`pointsman-expected-time` costs in ms what its README says.',
      test(
        EXPECTED_TIME,
        'pointsman-expected-time > costs what the formula says with half of it on the device',
      ),
      fault(
        'src/policies/pointsman-expected-time/expected-time.ts',
        'const cached = held * blockSize;',
        'const cached = 0;',
      ),
    ),
    rule(
      'expected-time-monotonic',
      'It never costs more with more cached or in flight, or with less booked.',
      test(EXPECTED_TIME, 'the expected time > is never longer with one decode less'),
      fault(
        'src/policies/pointsman-expected-time/expected-time.ts',
        'prefill_weight + interference_weight * decodeRequests[row]!',
        'prefill_weight - interference_weight * decodeRequests[row]!',
      ),
    ),
    rule(
      'expected-time-stated',
      'Where all times are stated nothing is learnt for it.',
      test(EXPECTED_TIME, 'pointsman-expected-time > asks nobody to learn what is stated'),
      fault(
        'src/policies/pointsman-expected-time/policy.ts',
        'if (statesAll(parameters.timing)) {',
        'if (!statesAll(parameters.timing)) {',
      ),
    ),
    rule(
      'tuned-cost-formula',
      '`pointsman-tuned-cost` is the default cost with its own weights, blocks in flight counted as cached.',
      test(
        TUNED_COST,
        'pointsman-tuned-cost > costs, with 16 blocks cached and 24 in flight, what the formula says',
      ),
      fault(
        'src/policies/pointsman-tuned-cost/policy.ts',
        'let device = inFlightBlocks[row]!;',
        'let device = 0;',
      ),
    ),
  ],
};
