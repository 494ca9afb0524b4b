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
        'src/host/time-rows.ts',
        'let computing = full - held * (block + pairs * held);',
        'let computing = full;',
      ),
    ),
    rule(
      'expected-time-monotonic',
      'It never costs more with more cached or in flight, or with less booked.',
      test(EXPECTED_TIME, 'the expected time > is never longer with one decode less'),
      fault(
        'src/host/time-rows.ts',
        'prefill + decodes * decodeRequests[row]!',
        'prefill - decodes * decodeRequests[row]!',
      ),
    ),
    rule(
      'expected-time-late',
      'What of a wait and of computing lies beyond `ttft_target_ms` counts again.',
      test(
        EXPECTED_TIME,
        'pointsman-expected-time > costs three times on top what comes later than the target, computed or read',
      ),
      fault(
        'src/host/time-rows.ts',
        'let time = queue + weight * computing + lateness;',
        'let time = queue + weight * computing + idle;',
      ),
    ),
    rule(
      'expected-time-copies',
      'With `peer_copies` it counts on blocks that a peer could send where no prompt waits and a copy is faster than computing; without, who could send them is not asked for.',
      test(
        EXPECTED_TIME,
        'pointsman-expected-time > counts on copies where it is to: the same, prompts before it',
      ),
      fault('src/host/time-copies.ts', '|| isWaitedOn(terms, table, row)', ''),
    ),
    rule(
      'expected-time-stated',
      'Where all times are stated nothing is learnt for it.',
      test(EXPECTED_TIME, 'pointsman-expected-time > asks nobody to learn what is stated'),
      fault('src/plugin/time-cost.ts', 'if (Object.values(timing).includes(null)) inputs', 'inputs'),
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
        'in_flight_blocks: true',
        'in_flight_blocks: false',
      ),
    ),
  ],
};
