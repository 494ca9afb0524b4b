import { type ContractSection, fault, rule, test, types } from './rule.ts';

const PLUGIN_LOADER = 'src/host/plugin-loader.test.ts';
const DEFINITION_CHECK = 'src/host/definition-check.test.ts';
const CREATED_POLICY = 'src/host/created-policy.test.ts';
const HINT_STAGE = 'src/host/hint-stage.test.ts';
const COMPONENT_VIEWS = 'src/host/component-views.test.ts';
const COMPOSE_ROUTER = 'src/cli/compose-router.test.ts';
const EXAMPLE = 'tests/contract-example.test.ts';
const LINEAGE = 'tests/lineage.test.ts';
const ROAD = 'src/road/road.test.ts';
const PLUGIN_HOST = 'src/host/plugin-host.test.ts';

/** Inputs. */
export const INPUTS_RULES: ContractSection = {
  title: 'Inputs',
  rules: [
    rule(
      'inputs-literal',
      '`inputs` is a literal list of known names; the compiler refuses other names, and lists it cannot read.',
      types('hint inputs > are known names in a literal list'),
      fault(
        'src/plugin/hint-policy.ts',
        'export type HintInput = keyof HintInputs;',
        "export type HintInput = keyof HintInputs | 'kv-copy-location';",
      ),
    ),
    rule(
      'inputs-known',
      'A name that is no input for that kind of plugin ends the start, with the known names and the nearest.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > declares an input that does not exist: the listing says so',
      ),
      fault(
        'src/host/definition-check.ts',
        "if (typeof input === 'string' && known.includes(input)) continue;",
        "if (typeof input === 'string') continue;",
      ),
    ),
    rule(
      'inputs-of-kind',
      '`preferred-taint`, `occupancy`, `device`, `in-flight-blocks`, `request-phases`, `cache-pressure` and `output-length` are inputs of worker selection alone: a hint policy that lists one is refused.',
      test(DEFINITION_CHECK, 'inputs of a hint policy > are those of its kind'),
      fault(
        'src/host/definition-check.ts',
        'HINT_INPUTS, `${label}: inputs`',
        'WORKER_INPUTS, `${label}: inputs`',
      ),
    ),
    rule(
      'inputs-undeclared-named',
      'What a policy throws because it reads an input that it does not declare is told with the name of that input.',
      test(
        'src/testing/hint-trial.test.ts',
        'testHintPolicy > names the input that the policy reads and does not declare',
      ),
      fault(
        'src/host/undeclared-input.ts',
        'if (member === undefined) return thrown;',
        'if (member !== null) return thrown;',
      ),
    ),
    rule(
      'inputs-component',
      'Filters, scorers and pickers each declare inputs of their own; an unknown one ends the start.',
      test(
        CREATED_POLICY,
        'what create returns > is refused when a component declares an input that does not exist',
      ),
      fault('src/host/created-policy.ts', 'if (fault !== null) throw invalid(fault);', ''),
    ),
    rule(
      'inputs-type',
      'What is declared, and nothing else, stands on the type of the context.',
      types('hint inputs > put onto the context exactly what is declared'),
      fault(
        'src/plugin/hint-policy.ts',
        'unknown : Merge<HintInputs[I]>) &',
        'unknown : Merge<HintInputs[HintInput]>) &',
      ),
    ),
    rule(
      'inputs-component-type',
      'Each component sees the types of its own inputs.',
      types('worker-selection components > get the types of their own inputs, also inside create'),
      fault(
        'src/plugin/worker-components.ts',
        'unknown : Merge<WorkerRowInputs[I]>);',
        'unknown : Merge<WorkerRowInputs[WorkerInput]>);',
      ),
    ),
    rule(
      'inputs-choice',
      'A choice between literal lists is allowed; what only one of them has must then be asked for with `in`.',
      types('hint inputs > may be a choice, which then has to be asked for'),
      fault(
        'src/plugin/hint-policy.ts',
        '> = L extends readonly HintInput[] ? HintContext<Granted<L>, C> : never;',
        '> = [L] extends [readonly HintInput[]] ? HintContext<Granted<L>, C> : never;',
      ),
    ),
    rule(
      'inputs-object',
      'What is declared, and nothing else, stands on the object a hint policy is given.',
      test(
        HINT_STAGE,
        'the context > holds the base facts, frozen, and of the inputs only the declared ones',
      ),
      fault(
        'src/host/hint-context.ts',
        'if (reads.cache) context.cache = cacheRow(booking);',
        'context.cache = cacheRow(booking);',
      ),
    ),
    rule(
      'inputs-component-object',
      'What is declared, and nothing else, stands on the objects that components are given.',
      test(COMPONENT_VIEWS, 'what a component sees > is what it declared and nothing else'),
      fault(
        'src/host/component-views.ts',
        "if (inputs.includes('load')) addGroup",
        "if (inputs.includes('load') || inputs.includes('cache')) addGroup",
      ),
    ),
    rule(
      'inputs-prepared',
      'The host prepares what is declared and nothing else.',
      test(COMPONENT_VIEWS, 'what a component sees > is exactly what the host prepares'),
      fault(
        'src/host/role-runtime.ts',
        "preferredTaint: inputs.has('preferred-taint'),",
        'preferredTaint: true,',
      ),
    ),
    rule(
      'inputs-cache-index',
      'Only when somebody declares `cache` or `kv-copy-locations` is an index kept and are events heard.',
      test(
        COMPOSE_ROUTER,
        'a composed router > keeps no index when nobody reads one, and no records when there is no room for any',
      ),
      fault(
        'src/cli/compose-router.ts',
        'const wantsIndex = host.resolution().some(({ needs }) => needs.cache);',
        'const wantsIndex = true;',
      ),
    ),
    rule(
      'inputs-cache-lookup',
      'A prompt is looked up only for a role that declares it.',
      test(ROAD, 'the road > asks nobody for cache facts when the policy reads none, and still books'),
      fault('src/road/prompt-lookup.ts', 'needs.copyLocations ||', 'true ||'),
    ),
    rule(
      'inputs-copies-index',
      '`kv-copy-locations` of a hint policy starts the index although the selection looks at no cache.',
      test(
        PLUGIN_HOST,
        'what a role gets > needs the index for copy locations even if its policy looks at no cache',
      ),
      fault('src/host/role-runtime.ts', '      copyLocations ||', ''),
    ),
    rule(
      'inputs-cache-row',
      '`context.cache` of a hint policy is what the booked rank held of the prompt at selection.',
      test(
        HINT_STAGE,
        'the context > holds the base facts, frozen, and of the inputs only the declared ones',
      ),
      fault(
        'src/host/hint-context.ts',
        'deviceBlocks: table?.deviceBlocks[row] ?? 0,',
        'deviceBlocks: table?.deviceBlocks[0] ?? 0,',
      ),
    ),
    rule(
      'inputs-load-row',
      '`context.load` of a hint policy is the load of the booked rank at selection.',
      test(
        HINT_STAGE,
        'the context > holds the base facts, frozen, and of the inputs only the declared ones',
      ),
      fault(
        'src/host/hint-context.ts',
        'activeRequests: table?.activeRequests[row] ?? 0,',
        'activeRequests: table?.activeRequests[0] ?? 0,',
      ),
    ),
    rule(
      'inputs-lineage-null',
      '`session-lineage` is null where lineage is off (`router.use_kv_events: false`, `router.enable_session_prefix_index: false`), and for a booking on a rank whose blocks are estimated; the start says once per role what is off.',
      test(EXAMPLE, 'loads, asks for lineage alone, and where that is off the start says so once per role'),
      fault('src/host/startup-notes.ts', "lineage === 'disabled' ? 'session-lineage' : ''", "''"),
    ),
    rule(
      'inputs-lineage-context',
      'A hint policy that asks for lineage sends nothing while there is none, and hashes of the booked worker where there is.',
      test(
        EXAMPLE,
        'sends nothing without a session or without lineage, and up to max_blocks hashes of the booked worker with both',
      ),
      fault(
        'src/host/hint-context.ts',
        'context.lineage = booking.lineage ?? null;',
        'context.lineage = null;',
      ),
    ),
    rule(
      'inputs-lineage-columns',
      'Filters, scorers and pickers that ask for it see it, or null where it is off.',
      test(LINEAGE, 'a worker-selection policy sees on which worker a session has its blocks'),
      fault('src/host/component-views.ts', 'return this.#candidates.lineage;', 'return null;'),
    ),
    rule(
      'inputs-lineage-paths',
      'A path has all blocks from the root to a frontier, in the hashes of the worker concerned; labelled stores and matches lengthen it.',
      test(LINEAGE, 'vLLM maps without: three turns give a path from root to frontier'),
      fault('src/cli/session-feeds.ts', 'hashes.sequence.subarray(0, 2 * depth)', 'NOTHING'),
    ),
    rule(
      'inputs-lineage-clears',
      'A gap, a restart, a clear and the end of a worker take away what sessions had on its ranks, and on no other.',
      test(LINEAGE, 'a gap in its events clears a rank and no other'),
      fault('src/cli/session-feeds.ts', 'this.#kept?.updates.cleared(owner);', ''),
    ),
    rule(
      'inputs-lineage-removals',
      'Blocks that a worker removed or evicted are in no list of it.',
      test(LINEAGE, 'removals and tiers are seen, and what sessions share is exclusive to none of them'),
      fault('src/cli/session-feeds.ts', 'updates.removed(owner, hashes)', 'hashes.fill(0)'),
    ),
    rule(
      'inputs-lineage-final',
      'With its final request a session is forgotten, however that ends; its policies still see it.',
      test(
        LINEAGE,
        'a final request ends its session, however it ends, and tenants and partitions do not meet',
      ),
      fault('src/cli/session-feeds.ts', 'this.#kept.updates.finished(key)', 'undefined'),
    ),
    rule(
      'inputs-residency',
      '`residency` says which tier of a worker holds a block, by its own hash; null where nobody knows.',
      test(LINEAGE, 'removals and tiers are seen, and what sessions share is exclusive to none of them'),
      fault('src/host/residency-view.ts', 'residency.hasRow(slot, tier, external)', 'false'),
    ),
    rule(
      'inputs-off-type',
      'On the types such an input may be null, and must be asked for.',
      types('hint inputs > that may be switched off are null then, and must be asked for'),
      fault(
        'src/plugin/hint-policy.ts',
        'readonly lineage: SessionLineage | null',
        'readonly lineage: SessionLineage',
      ),
    ),
  ],
};
