import { type ContractSection, fault, rule, test } from './rule.ts';

const STAGE = 'src/host/classifier-stage.test.ts';
const STAGE_SOURCE = 'src/host/classifier-stage.ts';
const LIFECYCLE_SOURCE = 'src/host/classifier-lifecycle.ts';
const OVERRIDES_SOURCE = 'src/host/classifier-overrides.ts';
const HOST_SOURCE = 'src/host/classifiers.ts';
const PLUGIN_SOURCE = 'src/plugin/request-classifier.ts';
const made = (what: string) => test('src/host/classifiers.test.ts', `a classifier > ${what}`);
const unusable = (what: string) =>
  test('src/host/classifiers.test.ts', `a classifier that cannot be used > ${what}`);
const classification = (what: string) => test(STAGE, `a classification > ${what}`);
const answer = (what: string) => test('src/road/classify.test.ts', `an answer > ${what}`);
const CLASSIFY_SOURCE = 'src/road/classify.ts';
const queued = (what: string) => test('src/road/admission-queue.test.ts', what);
const waits = (what: string) => test('src/road/admission-waits.test.ts', what);
const overrides = (what: string) => test('src/host/classifier-overrides.test.ts', `overrides > ${what}`);
const hostile = (what: string) =>
  test(
    'src/road/hostile-classifiers.test.ts',
    `a classifier that ${what} > costs that request at most; one before, beside and after it are served`,
  );
const compiled = (name: string) =>
  ({
    file: 'src/plugin/request-classifier.test.ts',
    name: `defineRequestClassifier > ${name}`,
    by: 'compiler',
  }) as const;
const SEEN = classification('sees the request, frozen, and follows its progress');

/** What a classifier is made of. */
export const CLASSIFIER_RULES: ContractSection = {
  title: 'Request classifiers: creation',
  rules: [
    rule(
      'classifier-per-partition',
      'A classifier is created at the start, once for each partition.',
      made('is created once per model at the start, sees its workers, and is disposed'),
      fault(HOST_SOURCE, 'if (known !== undefined) return known;', ''),
    ),
    rule(
      'classifier-workers',
      '`workers()` are those of the partition, without those that are gone.',
      made('is created once per model at the start, sees its workers, and is disposed'),
      fault(
        'src/host/classifier-site.ts',
        "spec.model === model && state !== 'gone'",
        'spec.model === model',
      ),
    ),
    rule(
      'classifier-create-type',
      '`create` gets the parameters of the schema, clock, partition, block size and workers.',
      compiled('gives create the parameters of the schema, and a partition'),
      fault(PLUGIN_SOURCE, 'readonly blockSize: number | null;', 'readonly blockSize: number;'),
    ),
    rule(
      'classifier-shared',
      'With `scope: shared` there is one for all partitions.',
      made('of scope shared is one for all models, without a partition'),
      fault('src/host/classifiers.ts', "if (prepared.scope === 'shared') this.#shared = instance;", ''),
    ),
    rule(
      'classifier-shared-type',
      'A shared classifier gets no partition; none has a role.',
      compiled('takes the partition away where the classifier is shared, and has no role'),
      fault(
        PLUGIN_SOURCE,
        '? CreateBase<Parameters<S>> & ClassifierPartition : CreateBase<Parameters<S>>;',
        '? CreateBase<Parameters<S>> & ClassifierPartition : CreateBase<Parameters<S>> & ClassifierPartition;',
      ),
    ),
    rule(
      'classifier-disposed',
      'Its `dispose` is called when the router stops.',
      made('is created once per model at the start, sees its workers, and is disposed'),
      fault(HOST_SOURCE, 'this.#disposers.unshift(classifier.dispose,', 'this.#disposers.unshift('),
    ),
    rule(
      'classifier-none',
      'Without `request_classifier`, or with `default` or `pass-through`, nobody is asked.',
      made('that has nothing to say is not asked: "request_classifier: { type: default }"'),
      fault(
        'src/host/classifier-resolution.ts',
        "const type = entry.type === 'default' ? DEFAULT_CLASSIFIER : entry.type;",
        'const type = entry.type;',
      ),
    ),
    rule(
      'classifier-unknown',
      'An unknown classifier ends the start; the known ones and the nearest are named.',
      unusable('unknown'),
      fault('src/host/classifier-resolution.ts', '; ${insteadOf(type, catalog, known)}', ''),
    ),
    rule(
      'classifier-wrong-kind',
      'A policy of another kind in its place is told where it belongs.',
      unusable('of another kind'),
      fault(
        'src/host/classifier-resolution.ts',
        'const other = catalog.hints.has(type)',
        'const other = catalog.hints.has(`${type}?`)',
      ),
    ),
    rule(
      'classifier-no-inputs',
      'It declares no inputs and no commitments: it reads nothing that others would have to prepare.',
      unusable('declares what a classifier does not have, or takes a type that another kind has'),
      fault(
        'src/host/definition-check.ts',
        "for (const name of ['inputs', 'commitments']) {",
        'for (const name of []) {',
      ),
    ),
    rule(
      'classifier-members',
      'What `create` returns has no members but `classify`, `onEvent` and `dispose`, all optional.',
      unusable('with a misspelt callback'),
      fault(
        'src/host/created-classifier.ts',
        "const MEMBERS = ['classify', 'onEvent', 'dispose'];",
        "const MEMBERS = ['classify', 'clasify', 'onEvent', 'dispose'];",
      ),
    ),
    rule(
      'classifier-register',
      '`registry.registerRequestClassifier` registers one.',
      made('may come from a registry'),
      fault('src/host/catalog-registry.ts', 'catalog.classifiers.set(', 'new Map().set('),
    ),
    rule(
      'classifier-check',
      '`pointsman check` shows which one is used.',
      test('tests/classifiers.test.ts', 'check > shows the classifier'),
      fault(
        'src/cli/check.ts',
        'request classifier: ${classifier.type} ${classifier.version}',
        'request classifier: ${classifier.type}',
      ),
    ),
  ],
};

/** What it sees and answers. */
export const CLASSIFY_RULES: ContractSection = {
  title: 'Request classifiers: the answer',
  rules: [
    rule(
      'classify-request',
      '`classify` sees request id, session, input tokens, scheduling cost, policy class, times, context tokens and pin.',
      SEEN,
      fault(LIFECYCLE_SOURCE, 'inputTokens: promptTokens,', 'inputTokens: 0,'),
    ),
    rule(
      'classify-request-frozen',
      'The request is frozen.',
      SEEN,
      fault(LIFECYCLE_SOURCE, 'return Object.freeze({\n    requestId,', 'return ({\n    requestId,'),
    ),
    rule(
      'classify-request-type',
      'To the compiler it is read-only.',
      compiled('shows the request and the events as they are'),
      fault(PLUGIN_SOURCE, 'readonly inputTokens: number;', 'inputTokens: number;'),
    ),
    rule(
      'classify-context-tokens',
      '`contextTokens` grows with the answer and never goes back.',
      SEEN,
      fault(LIFECYCLE_SOURCE, 'if (contextTokens > this.#contextTokens && !this.ended)', 'if (!this.ended)'),
    ),
    rule(
      'classify-before-booking',
      'A request is asked about before anything is booked.',
      test(
        'tests/classifiers.test.ts',
        'at a live gateway > a client that leaves while it waits is never booked, and others are served meanwhile',
      ),
      fault(
        'src/road/classify.ts',
        'exchange.follow(lifecycle);',
        'exchange.follow(lifecycle);\n    this.#ports.goOn(exchange, request, null);',
      ),
    ),
    rule(
      'classify-at-once',
      'An answer at once is acted on in the same step.',
      answer('at once goes on at once: the request is dispatched before arrive returns'),
      fault(STAGE_SOURCE, 'if (!later) {', 'if (later === undefined) {'),
    ),
    rule(
      'classify-later',
      'A classifier may answer later, waiting on the injected clock; nobody else waits for it.',
      classification('may wait on the clock, and holds nobody else up'),
      fault(STAGE_SOURCE, 'later = isThenable(answer);', 'later = answer === isThenable;'),
    ),
    rule(
      'classify-replay',
      'In a replay it waits in virtual time, and two runs are the same.',
      test(
        'tests/classifiers.test.ts',
        'in a replay > an asynchronous classifier waits in virtual time, and two runs are the same',
      ),
      fault('src/replay/run.ts', 'if (road.unsettled()) await promisesRan();', ''),
    ),
    rule(
      'classify-nothing',
      '`undefined` and an object without members change nothing.',
      overrides('undefined changes nothing'),
      fault(OVERRIDES_SOURCE, 'if (answer === undefined) return NO_OVERRIDES;', ''),
    ),
    rule(
      'classify-missing',
      'A member that is missing leaves the request as it is.',
      overrides('a member that is undefined counts as missing'),
      fault(OVERRIDES_SOURCE, 'if (policyClass !== undefined)', 'if (given !== undefined)'),
    ),
    rule(
      'classify-null',
      'A member that is null clears.',
      overrides('null clears'),
      fault(OVERRIDES_SOURCE, 'return value === null ? null : read(value);', 'return read(value);'),
    ),
    rule(
      'classify-answer-type',
      'The compiler knows `policyClass`, `dueAt`, `schedulingCostTokens` and `workerTarget`, and refuses other members.',
      compiled('takes overrides at once or later, and no others'),
      fault(
        PLUGIN_SOURCE,
        'readonly policyClass?: string | null;',
        'readonly [name: string]: unknown;\n  readonly policyClass?: string | null;',
      ),
    ),
    rule(
      'classify-unknown-member',
      'An unknown member makes the answer invalid.',
      hostile('answers the request'),
      fault(
        OVERRIDES_SOURCE,
        "if (typeof key === 'string' && known.includes(key)) continue;",
        "if (typeof key === 'string') continue;",
      ),
    ),
    rule(
      'classify-policy-class',
      'A policy class is a family, or a class without one, of the queue profile; without a profile only `default`.',
      hostile('answers an unknown class'),
      fault(OVERRIDES_SOURCE, 'if (classes.has(value)) return value;', 'if (classes) return value;'),
    ),
    rule(
      'classify-policy-class-family',
      'Classes of the profile of a model come before those of the router.',
      made('may name the families and own classes of the queue profile, per model where it has one'),
      fault(
        'src/config/build.ts',
        'classes.map(({ name, policy_family: family }) => family ?? name)',
        'classes.map(({ name }) => name)',
      ),
    ),
    rule(
      'classify-copied',
      'The answer is copied, each member read once.',
      overrides('reads every member once, so that a getter cannot answer twice'),
      fault(
        'src/host/classifier-overrides.ts',
        'orNull(policyClass, (name) => className(name, classes));',
        "orNull(Reflect.get(Object(answer), 'policyClass'), (name) => className(name, classes));",
      ),
    ),
    rule(
      'classify-record',
      'Overrides go on with the request and stand in its record.',
      answer('carries its overrides into the record and its policy class into the queue'),
      fault('src/road/walk.ts', '?? policyClassOf(classification),', '?? policyClassOf(null),'),
    ),
    rule(
      'classify-queue-class',
      'In the admission queue of its model a request waits in the class that its classifier names, whatever its caller asked for; null means the default family.',
      queued('a class > is named by the classifier, which may also clear what the caller asked for'),
      fault(
        CLASSIFY_SOURCE,
        'return own === undefined ? (request.policyClass ?? null) : own;',
        'return request.policyClass ?? null;',
      ),
    ),
    rule(
      'classify-queue-cost',
      '`schedulingCostTokens` is what its turn costs; without it what is not cached, at least 1.',
      queued(
        'a class > takes turns by strict priority, then priority, and by what the classifier says a turn costs',
      ),
      fault(
        CLASSIFY_SOURCE,
        'return classification?.overrides.schedulingCostTokens ?? Math.max(1, promptTokens - cachedTokens);',
        'return Math.max(1, promptTokens - cachedTokens);',
      ),
    ),
    rule(
      'classify-queue-due',
      'A request that waits until `dueAt` is refused (429, PM_QUEUE_DEADLINE).',
      waits('a wait > ends when the request was due, with the deadline and a time to try again'),
      fault(CLASSIFY_SOURCE, 'return classification?.overrides.dueAt ?? null;', 'return null;'),
    ),
    rule(
      'classify-target',
      '`workerTarget` is soft: worker-selection policies see it as the affinity target.',
      answer('with a worker target reaches policies as the affinity target'),
      fault(
        'src/road/placement-request.ts',
        'affinityTarget: softTargetOf(classification) ?? caller?.affinityTarget ?? null,',
        'affinityTarget: caller?.affinityTarget ?? null,',
      ),
    ),
    rule(
      'classify-once',
      'A request is asked about once; a retry gets the same overrides.',
      classification('is asked for once; a retry gets the same answer'),
      fault(LIFECYCLE_SOURCE, 'if (this.#answer !== null) {', 'if (this.#answer === undefined) {'),
    ),
    rule(
      'classify-hops',
      'A hop that only prefills is not asked about: its request is, once.',
      test('src/road/classify.test.ts', 'a hop that only prefills is not classified: its other hop is'),
      fault(
        'src/road/classify.ts',
        "if (request.role !== 'aggregated' && request.role !== 'decode') return null;",
        '',
      ),
    ),
  ],
};
