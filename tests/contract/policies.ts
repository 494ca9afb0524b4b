import { type ContractSection, fault, rule, test } from './rule.ts';

const HOST = 'src/host/plugin-host.test.ts';
const KVCR = 'src/policies/kvcr/policy.test.ts';
const KVCR_SOURCE = 'src/policies/kvcr/policy.ts';
const KV_FETCH = 'src/policies/kv-fetch/policy.test.ts';
const KV_FETCH_SOURCE = 'src/policies/kv-fetch/policy.ts';
const POWER = 'src/policies/power-of-two/policy.test.ts';
const POWER_SOURCE = 'src/policies/power-of-two/policy.ts';
const TWO_TIER = 'src/policies/dynamo-two-tier-cost-fn/policy.test.ts';
const TWO_TIER_SOURCE = 'src/policies/dynamo-two-tier-cost-fn/policy.ts';
const SENDER = test(
  'src/host/role-resolution.test.ts',
  'a refusal names file, line, column and what would be right > asks for no sender where kvcr commits nothing, and runs kv_fetch by default where it does',
);

/** What comes with the program. */
export const POLICY_RULES: ContractSection = {
  title: 'Built-in policies',
  rules: [
    rule(
      'policy-default',
      'A role that names no policy uses `dynamo-default-cost-fn`.',
      test(HOST, 'what a role gets > is the default policy on the KV path where nothing is said'),
      fault(
        'src/host/builtin-policies.ts',
        "DEFAULT_POLICY = 'dynamo-default-cost-fn'",
        "DEFAULT_POLICY = 'random'",
      ),
    ),
    rule(
      'policy-modes',
      'Every router mode but `kv` is the type of a plain policy, which decides for all roles.',
      test(HOST, 'what a role gets > is the policy of router mode power-of-two, without hints'),
      fault(
        'src/host/role-resolution.ts',
        "const fallback = mode === 'kv' ? DEFAULT_POLICY : mode;",
        'const fallback = DEFAULT_POLICY;',
      ),
    ),
    rule(
      'policy-plain-on-kv-path',
      'A role on the KV path may use a plain policy, and keeps its hints.',
      test(
        HOST,
        'what a role gets > needs the index for copy locations even if its policy looks at no cache',
      ),
      fault('src/host/role-resolution.ts', 'hints: onKvPath ? hints : [],', 'hints: [],'),
    ),
    rule(
      'policy-router-keys',
      'Cost keys under `router` are the defaults of `dynamo-default-cost-fn` and `kvcr`; the parameters of a role win.',
      test(
        HOST,
        'what a role gets > takes cost weights from the router section, and its own parameters before them',
      ),
      fault('src/host/catalog.ts', '{ ...defaults, ...given }', '{ ...given, ...defaults }'),
    ),
    rule(
      'policy-default-formula',
      '`dynamo-default-cost-fn` adds prompt blocks to prefill, less credit for cached ones, to blocks in decode.',
      test(
        'src/policies/dynamo-default-cost-fn/policy.test.ts',
        'dynamo-default-cost-fn > adds prefill blocks less credit to decode blocks: 96 + 138 = 234',
      ),
      fault(
        'src/host/usual-cost.ts',
        'const base = prefillScale * left + decodeCostBlocks[row]! +',
        'const base = prefillScale * left +',
      ),
    ),
    rule(
      'policy-round-robin',
      '`round-robin` takes candidates in turn.',
      test(
        'src/policies/round-robin/policy.test.ts',
        'gives every worker its turn in order and asks for nothing',
      ),
      fault('src/policies/round-robin/policy.ts', 'turn = (turn + 1) % Number.MAX_SAFE_INTEGER;', ''),
    ),
    rule(
      'policy-random',
      '`random` draws uniformly.',
      test(
        'src/policies/random/policy.test.ts',
        'spreads evenly: chi-square over 8 workers stays below the 0.1 % bound',
      ),
      fault('src/policies/random/policy.ts', 'rng.integer(count)', 'Math.min(1, rng.integer(count))'),
    ),
    rule(
      'policy-least-loaded',
      '`least-loaded` takes the fewest requests in flight.',
      test(
        'src/policies/least-loaded/policy.test.ts',
        'takes the fewest requests in flight and asks for occupancy alone',
      ),
      fault('src/policies/least-loaded/policy.ts', '= occupancy[row]!;', '= -occupancy[row]!;'),
    ),
    rule(
      'policy-device-share',
      '`device-aware-weighted` gives CPUs their share and no more.',
      test(
        'src/policies/device-aware-weighted/policy.test.ts',
        'device-aware-weighted > gives CPUs their share and no more: 2 CPUs beside 2 others, 8 to 1',
      ),
      fault(
        'src/policies/device-aware-weighted/policy.ts',
        'return onCpus < Math.floor(',
        'return onCpus <= Math.floor(',
      ),
    ),
    rule(
      'policy-power-of-two-pair',
      '`power-of-two` draws two different candidates.',
      test(POWER, 'never compares a candidate with itself: the busiest of all is never taken'),
      fault(POWER_SOURCE, '(first + 1 + rng.integer(count - 1)) % count', 'rng.integer(count)'),
    ),
    rule(
      'policy-power-of-two-choice',
      'Of the two it takes the one with fewer requests in flight.',
      test(
        POWER,
        'takes the less busy of the pair: of three, the middle one exactly where it meets the busiest',
      ),
      fault(POWER_SOURCE, 'occupancy[second]! < occupancy[first]!', 'occupancy[second]! > occupancy[first]!'),
    ),
    rule(
      'policy-two-tier-prefix',
      '`dynamo-two-tier-cost-fn` follows a cached prefix longer than its threshold to its holder.',
      test(TWO_TIER, 'the two tiers > a prefix over the threshold outranks a less loaded worker'),
      fault(
        TWO_TIER_SOURCE,
        'longest / requestBlocks > parameters.cache_threshold;',
        'longest / requestBlocks > 1;',
      ),
    ),
    rule(
      'policy-two-tier-balance',
      'Before that it evens out a lopsided load.',
      test(TWO_TIER, 'the two tiers > a lopsided load ignores the whole prompt cached'),
      fault(TWO_TIER_SOURCE, '!isLopsided && requestBlocks > 0 &&', 'requestBlocks > 0 &&'),
    ),
    rule(
      'policy-two-tier-load',
      'Else it takes the least loaded.',
      test(TWO_TIER, 'the two tiers > without a prefix the least loaded is taken'),
      fault(
        TWO_TIER_SOURCE,
        'lowest.offer(row, activeRequests[row]!);',
        'lowest.offer(row, -activeRequests[row]!);',
      ),
    ),
    rule(
      'policy-two-tier-adaptive',
      'With `adaptive` it weighs prefix against load instead.',
      test(
        TWO_TIER,
        'the adaptive form > weighs prefix against load: by hand, 10 of 10 blocks against 0, 40 requests against 0',
      ),
      fault(TWO_TIER_SOURCE, 'Math.exp(-10 * (imbalance - 0.5))', 'Math.exp(10 * (imbalance - 0.5))'),
    ),
    rule(
      'policy-direct',
      '`direct` takes pinned requests only and refuses others with 400.',
      test(
        'src/policies/direct/policy.test.ts',
        'refuses a request without a pin in words, also where only one worker is left',
      ),
      fault('src/policies/direct/policy.ts', 'pick() {', 'pick() {\n        if (role) return 0;'),
    ),
  ],
};

/** Selection that counts on copies, and the hint policy that sends them. */
export const KVCR_RULES: ContractSection = {
  title: 'kvcr and kv_fetch',
  rules: [
    rule(
      'kvcr-parameters',
      '`kvcr` takes every parameter of the default cost.',
      test(KVCR, 'kvcr > takes the parameters of the default cost'),
      fault(KVCR_SOURCE, 'parameters: costParameters.extend({', 'parameters: z.object({'),
    ),
    rule(
      'kvcr-range',
      'Its `shared_cache_multiplier` is from 0 to 1.',
      test(KVCR, 'kvcr > refuses a multiplier of 1.1'),
      fault(KVCR_SOURCE, '.max(1)', ''),
    ),
    rule(
      'kvcr-default',
      'By default it is 0.5.',
      test(KVCR, 'kvcr > credits half of what a peer could copy and commits it: 704, 220, 224'),
      fault(KVCR_SOURCE, '.default(0.5)', '.default(0.25)'),
    ),
    rule(
      'kvcr-golden',
      'Golden vector, multiplier 0.5: costs 704, 220, 224.',
      test(KVCR, 'kvcr > credits half of what a peer could copy and commits it: 704, 220, 224'),
      fault(
        'src/host/linear-cost.ts',
        'if (copyWeight > 0) credit += copyWeight * copyableBlocks[row]!;',
        '',
      ),
    ),
    rule(
      'kvcr-golden-commit',
      'In it worker 2 is chosen, with a copy from worker 1 committed: prefix 64, additional 56.',
      test(
        'src/road/commits.test.ts',
        'a committed copy > names the best source, is sent first, and stands in the record with the blocks that were credited',
      ),
      fault(
        'src/host/selection-pipeline.ts',
        'const commits = cost.commits.length > 0;',
        'const commits = cost.commits.length > 1;',
      ),
    ),
    rule(
      'kvcr-golden-zero',
      'Golden vector, multiplier 0: costs 704, 248, 256, worker 2, nothing committed.',
      test(KVCR, 'kvcr > is the default cost with multiplier 0, and commits nothing: 704, 248, 256'),
      fault(KVCR_SOURCE, 'parameters.shared_cache_multiplier > 0', 'parameters.shared_cache_multiplier >= 0'),
    ),
    rule(
      'kvcr-nothing-to-gain',
      'Where the chosen worker has nothing to gain, nothing is committed.',
      test(KVCR, 'kvcr > commits nothing where the chosen worker has nothing to gain'),
      fault(
        'src/host/selection-pipeline.ts',
        'return hasCopies && copyableBlocks[row]! >= 1;',
        'return hasCopies && copyableBlocks[row]! >= 0;',
      ),
    ),
    rule(
      'kvcr-shared-pool',
      'Without a shared cache the multiplier of the default cost credits nothing.',
      test(
        'src/policies/dynamo-default-cost-fn/policy.test.ts',
        'dynamo-default-cost-fn > credits nothing in a shared cache while there is none',
      ),
      fault(
        'src/host/linear-cost.ts',
        'const copyWeight = commits.length > 0 ? weights.shared_cache_multiplier : 0;',
        'const copyWeight = weights.shared_cache_multiplier;',
      ),
    ),
    rule(
      'kv-fetch-default-host',
      '`kv_fetch` runs by default under `kvcr`.',
      SENDER,
      fault(KV_FETCH_SOURCE, "[{ workerSelection: 'kvcr' }]", '[]'),
    ),
    rule(
      'kv-fetch-committed',
      '`kv_fetch` has the commitment `kv-copy`: it sends what selection committed, whatever its minimum.',
      test(
        'src/host/committing-picks.test.ts',
        'a committed copy in the envelope > is sent by kv_fetch whatever its minimum',
      ),
      fault(KV_FETCH_SOURCE, 'committedKvCopy ?? copyLocations', 'copyLocations'),
    ),
    rule(
      'kv-fetch-minimum',
      'Otherwise it sends one `kv.fetch@1.0` where a peer adds at least `min_additional_blocks`.',
      test(KV_FETCH, 'kv_fetch > sends at min_additional_blocks 3: 0 action'),
      fault(KV_FETCH_SOURCE, 'bestSource(parameters.min_additional_blocks)', 'bestSource(1)'),
    ),
    rule(
      'kv-fetch-minimum-default',
      '`min_additional_blocks` is 1 at least, and by default.',
      test(KV_FETCH, 'kv_fetch > refuses a minimum below 1'),
      fault(KV_FETCH_SOURCE, 'z.int().min(1)', 'z.int()'),
    ),
    rule(
      'kv-fetch-faster',
      'With `only_if_faster` it asks for a copy only where that takes less time than computing, waits for links included.',
      test(KV_FETCH, 'kv_fetch > waits for no link that other copies have taken'),
      fault(KV_FETCH_SOURCE, 'links.reserve(copy.source, worker, copyMs, now);', ''),
    ),
    rule(
      'kv-fetch-hashes',
      'It names the source’s hashes from the root, exact to 64 bits, as the source announced them; hashes of the router never leave it.',
      test(
        'src/host/kv-fetch-over-index.test.ts',
        'names the source’s announced hashes from the root, whatever the router calls them',
      ),
      fault(
        'src/host/copy-locations.ts',
        'const known = index.externalHashes(slot, hashes.sequence, 0, prefix, out);',
        'out.set(new BigUint64Array(hashes.sequence.slice(0, 2 * prefix).buffer));\n    const known = prefix;',
      ),
    ),
    rule(
      'kv-fetch-wire',
      'Hashes 0, 2^53+1, 2^63 and 2^64−1 arrive at the engine with every digit.',
      {
        file: 'tests/hint-policies.test.ts',
        name: 'a hint policy in a bare folder > runs without a build, its envelope arrives byte for byte, and a throwing neighbour loses only its own',
        by: 'process',
      },
      fault('src/plugin/exact-json.ts', 'return value.toString();', 'return String(Number(value));'),
    ),
  ],
};
