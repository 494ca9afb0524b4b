import { type ContractSection, fault, rule, test, types } from './rule.ts';

const PIPELINE = 'src/host/selection-pipeline.test.ts';
const CREATED = 'src/host/created-policy.test.ts';
const SCHEDULER = 'src/scheduling/scheduler.test.ts';
const COPY_SOURCES = 'src/host/copy-sources.test.ts';
const REQUEST = test(
  'src/road/selection-request.test.ts',
  'a worker-selection policy is told all that is known of the request, and can change none of it',
);
const TABLE = 'src/scheduling/candidate-table.ts';
const CACHE_COLUMNS = test(
  SCHEDULER,
  'placing a request > fills the cache columns from the match, lower tiers by their weight',
);
const LOAD_COLUMNS = test(
  SCHEDULER,
  'placing a request > books uncached tokens on the chosen slot, and shows them to the next decision',
);
const COPY_COLUMNS = test(
  COPY_SOURCES,
  'finds for every candidate what a plain search over all others finds',
);

/** What a worker-selection policy is made of. */
export const COMPONENT_RULES: ContractSection = {
  title: 'Worker selection: the parts',
  rules: [
    rule(
      'select-made',
      'Filters, scorers and pickers are made with the functions of the contract; a plain object is refused.',
      test(CREATED, 'what create returns > is refused with a bare scorer'),
      fault(
        'src/host/created-policy.ts',
        "if (!isComponent(component, kind) || typeof Reflect.get(component, method) !== 'function') {",
        "if (typeof Reflect.get(component, method) !== 'function') {",
      ),
    ),
    rule(
      'select-picker',
      'A policy has exactly one picker, unless it declares a cost.',
      test(CREATED, 'what create returns > is refused with no picker'),
      fault('src/host/created-policy.ts', 'if (picker === undefined) {', 'if (picker === null) {'),
    ),
    rule(
      'select-cost-alone',
      'A declared cost brings its own picker: scorers or a picker beside it are refused.',
      test(CREATED, 'what create returns > is refused with a cost and a picker'),
      fault(
        'src/host/created-policy.ts',
        'if (picker !== undefined || scorers.length > 0) {',
        'if (scorers.length > 0) {',
      ),
    ),
    rule(
      'select-cost-alone-type',
      'The compiler refuses a policy without a picker, and one with both.',
      types('worker-selection components > come with a picker, or with a declared cost that brings its own'),
      fault(
        'src/plugin/worker-selection.ts',
        'readonly picker?: never;',
        'readonly picker?: WorkerPicker<C>;',
      ),
    ),
    rule(
      'select-each',
      '`scoreEachWorker` costs one candidate at a time and sees the same numbers as a scorer over all.',
      test(PIPELINE, 'scorers > over each worker see the same numbers as scorers over all'),
      fault(
        'src/plugin/candidate-cursor.ts',
        'this.at.columns.cache!.diskBlocks;',
        'this.at.columns.cache!.hostBlocks;',
      ),
    ),
    rule(
      'select-linear-cost',
      '`linearCost` is the default formula, declared: the host evaluates it, and it equals the plain formula.',
      test(
        'src/host/linear-cost.test.ts',
        'the declared cost > equals the plain formula, directly and through the filtering path, with the same choice',
      ),
      fault(
        'src/host/usual-cost.ts',
        'const base = prefillScale * left + decodeCostBlocks[row]! +',
        'const base = prefillScale * left +',
      ),
    ),
    rule(
      'select-time-cost',
      '`timeCost` is the cost in time, declared: the host evaluates it, and it equals the formula of `pointsman-expected-time` to a share of 1e-12 of what the row costs with nothing cached.',
      test(
        'src/host/time-cost.test.ts',
        'the declared cost in time > equals the plain formula, directly and through the filtering path, with the same choice',
      ),
      fault('src/host/time-rows.ts', 'if (computing < floor) computing = floor;', ''),
    ),
    rule(
      'select-answers-type',
      'The compiler holds filters to true or false, scorers to returning nothing, pickers to a row.',
      types('worker-selection components > return what their contract says'),
      fault(
        'src/plugin/worker-components.ts',
        'readonly score: (candidates: CandidatesFor<I>, costs: Float64Array, request: SelectionRequest) => undefined;',
        'readonly score: (candidates: CandidatesFor<I>, costs: Float64Array, request: SelectionRequest) => unknown;',
      ),
    ),
    rule(
      'select-in-process',
      'A worker-selection policy cannot be isolated in a thread: the compiler refuses it.',
      types('worker-selection components > cannot be isolated in a thread: select and book are one step'),
      fault(
        'src/plugin/worker-selection.ts',
        'readonly exclusiveAffinity?: boolean;',
        'readonly exclusiveAffinity?: boolean;\n  readonly isolation?: string;',
      ),
    ),
  ],
};

/** What it sees. */
export const COLUMN_RULES: ContractSection = {
  title: 'Worker selection: columns and context',
  intro:
    'Columns hold one number per candidate, for the rows below `count`; they may be longer. `costs` is exactly `count` long.',
  rules: [
    rule(
      'columns-copied',
      'Columns are copies of this decision: what a policy writes to them is gone by the next one.',
      test(
        'src/host/component-views.test.ts',
        'what a component sees > is a copy: writing to a column changes nothing outside the policy',
      ),
      fault('src/host/lazy-column.ts', 'return this.#shown;', 'return this.#source;'),
    ),
    rule(
      'columns-given-away',
      'A policy that transfers an array it is shown, `costs` included, fails that decision in its name; the next one has arrays again.',
      test(
        'src/host/detached-arrays.test.ts',
        'a policy that gives away what it is shown fails that decision, and the next is as if it had not > a scorer: its costs',
      ),
      fault(
        'src/host/policy-components.ts',
        'if (this.#unwritten.length !== count) throw',
        'if (false) throw',
      ),
    ),
    rule(
      'columns-read-only-type',
      'To the compiler columns are read-only.',
      types('worker-selection components > get the types of their own inputs, also inside create'),
      fault(
        'src/plugin/inputs.ts',
        'export type Column = ArrayLike<number>;',
        'export type Column = Float64Array;',
      ),
    ),
    rule(
      'columns-resize',
      'Columns follow the number of candidates, up and down.',
      test(PIPELINE, 'columns grow with the fleet and shrink with it'),
      fault('src/host/selection-pipeline.ts', 'this.#compact.grow(room);', ''),
    ),
    rule(
      'columns-tiers',
      '`deviceBlocks`, `hostBlocks` and `diskBlocks` count the leading blocks of the prompt, each tier beyond the ones above it; external blocks count as disk.',
      CACHE_COLUMNS,
      fault(TABLE, '(disk?.[found] ?? 0) + (external?.[found] ?? 0);', '(disk?.[found] ?? 0);'),
    ),
    rule(
      'columns-overlap',
      '`effectiveOverlapBlocks` is device + host × host weight + disk × disk weight.',
      CACHE_COLUMNS,
      fault(
        TABLE,
        'onDevice + onHost * hostWeight + onDisk * diskWeight;',
        'onDevice + onHost * hostWeight;',
      ),
    ),
    rule(
      'columns-cached-tokens',
      '`cachedTokens` is the effective overlap in tokens, rounded.',
      CACHE_COLUMNS,
      fault(TABLE, 'Math.round(overlap * blockSize);', 'onDevice * blockSize;'),
    ),
    rule(
      'columns-fresh',
      'Nothing in the cache columns is left from the decision before.',
      test(SCHEDULER, 'placing a request > clears what the decision before left in its columns'),
      fault(TABLE, '    this.#clearCache();\n', ''),
    ),
    rule(
      'columns-load',
      '`load` is what is booked: prompt tokens not yet prefilled, requests, and the blocks in decode with what this request would add.',
      LOAD_COLUMNS,
      fault(TABLE, 'decodeCostBlocks[row] = held + additional;', 'decodeCostBlocks[row] = held;'),
    ),
    rule(
      'columns-occupancy',
      '`occupancy` counts the requests in flight.',
      LOAD_COLUMNS,
      fault(TABLE, 'occupancy[row] = requests;', 'occupancy[row] = 0;'),
    ),
    rule(
      'columns-device',
      '`device` says of each candidate whether its worker runs on a CPU.',
      test(SCHEDULER, 'placing a request > shows which workers run on a CPU'),
      fault(TABLE, 'candidates.onCpu[index] ?? 0;', '0;'),
    ),
    rule(
      'columns-taints',
      '`preferredTaintMultiplier` follows from the preferred taints of the request; it is 1 without any, and for a pinned request.',
      test(SCHEDULER, 'placing a request > prefers and avoids by taints, unless the request is pinned'),
      fault(
        'src/scheduling/scheduler.ts',
        'if (preferred.size === 0 || constraints.pinnedWorker !== null) {',
        'if (preferred.size === 0) {',
      ),
    ),
    rule(
      'columns-copies',
      '`copies.copyableBlocks` is the prefix of the best source less the candidate’s own device and host blocks, 0 at least.',
      COPY_COLUMNS,
      fault(
        'src/host/copy-sources.ts',
        'blocks - deviceBlocks[row]! - hostBlocks[row]!);',
        'blocks - deviceBlocks[row]!);',
      ),
    ),
    rule(
      'columns-copies-incapable',
      'A candidate that takes no hints, or none that the sender may send, has nothing to copy.',
      COPY_COLUMNS,
      fault(
        'src/host/copy-sources.ts',
        'if (rank?.routerHint !== true) return false;',
        'if (rank === undefined) return false;',
      ),
    ),
    rule(
      'context-request',
      'A policy is told prompt tokens, request blocks (rounded up), block size, session, pin, affinity target, expected output, priorities and temperature of the request.',
      REQUEST,
      fault(
        'src/scheduling/selection-facts.ts',
        'requestBlocks: Math.ceil(request.promptTokens / request.blockSize),',
        'requestBlocks: Math.floor(request.promptTokens / request.blockSize),',
      ),
    ),
    rule(
      'context-request-frozen',
      'What it is told is frozen: a policy cannot change what the host goes on with.',
      REQUEST,
      fault(
        'src/host/selection-pipeline.ts',
        'return Object.freeze({\n    promptTokens: facts.promptTokens,',
        'return ({\n    promptTokens: facts.promptTokens,',
      ),
    ),
    rule(
      'context-prefill',
      '`tracksPrefillTokens` is false for decode workers, whose prompts count no prefill.',
      test(SCHEDULER, 'placing a request > does not count prompt tokens to prefill for decode workers'),
      fault(
        'src/scheduling/placement-overrides.ts',
        "return tracksPrefill ?? overrides?.trackPrefillTokens ?? role !== 'decode';",
        'return true;',
      ),
    ),
  ],
};
