import { type ContractSection, fault, rule, test } from './rule.ts';

const STAGE = 'src/host/classifier-stage.test.ts';
const STAGE_SOURCE = 'src/host/classifier-stage.ts';
const LIFECYCLE_SOURCE = 'src/host/classifier-lifecycle.ts';
const EVENTS_SOURCE = 'src/host/classifier-events.ts';
const ERRORS_SOURCE = 'src/host/classifier-errors.ts';
const refusal = (what: string) => test(STAGE, `a refusal > ${what}`);
const failure = (what: string) => test(STAGE, `a failure > ${what}`);
const events = (what: string) => test(STAGE, `events > ${what}`);
const ids = (what: string) => test(STAGE, `ids > ${what}`);
const lifecycle = (what: string) => test('src/road/classify.test.ts', `the lifecycle > ${what}`);
const LIVE = test(
  'tests/classifiers.test.ts',
  'at a live gateway > refusals carry their status, Retry-After and text; failures carry a text of the router',
);
const ONE_BY_ONE = events(
  'are told one at a time; a handler that hangs is left after ten seconds, one that throws costs nothing',
);
const WAITING = test(
  'src/road/classify.test.ts',
  'waiting > holds nobody else up, counts as under way, and ends with the client',
);

/** How it refuses and fails. */
export const REFUSAL_RULES: ContractSection = {
  title: 'Request classifiers: refusals and failures',
  rules: [
    rule(
      'refuse-capacity',
      '`CapacityExhausted` answers the overload status with `Retry-After: 1`.',
      LIVE,
      fault(
        'src/gateway/openai-error.ts',
        'return error.status === 429 ? overloadStatus : error.status;',
        'return error.status;',
      ),
    ),
    rule(
      'refuse-rate-limited',
      '`RateLimited` answers 429 whatever the overload status is.',
      LIVE,
      fault(
        'src/gateway/openai-error.ts',
        "if (error.code === 'PM_CLASSIFIER_RATE_LIMITED') return error.status;",
        '',
      ),
    ),
    rule(
      'refuse-retry-after',
      'Its `Retry-After` is in whole seconds, rounded up, from 1 to 86,400.',
      refusal('RateLimited(2.2) says Retry-After 3'),
      fault(ERRORS_SOURCE, 'Math.ceil(seconds)', 'Math.floor(seconds)'),
    ),
    rule(
      'refuse-late',
      'A refusal may come late, as a rejection.',
      refusal('CapacityExhausted may come late, too'),
      fault(
        'src/host/classifier-stage.ts',
        'this.#fail(lifecycle, answer.thrown);',
        'this.#fail(lifecycle, undefined);',
      ),
    ),
    rule(
      'refuse-brand',
      'A refusal is known by its brand, also one of another copy of the package.',
      test('src/plugin/request-classifier.test.ts', 'refusals > of another copy of the package are known'),
      fault(
        'src/plugin/refusals.ts',
        "Symbol.for('pointsman.refusal.rate-limited')",
        "Symbol('pointsman.refusal.rate-limited')",
      ),
    ),
    rule(
      'refuse-text',
      'The client reads at most 256 characters of the classifier’s text, without control characters.',
      refusal('is a new error with at most 256 characters of the text, without control characters'),
      fault(ERRORS_SOURCE, '.slice(0, MAX_MESSAGE)', ''),
    ),
    rule(
      'refuse-no-failure',
      'A refusal is no failure of the classifier.',
      refusal('says nothing bad of the classifier: its breaker stays shut'),
      fault(STAGE_SOURCE, 'guard?.end(startedAt, !isRefusal(thrown));', 'guard?.end(startedAt, true);'),
    ),
    rule(
      'classify-throws',
      'Anything else that is thrown fails that request with a fixed text; its own is in the log.',
      failure('has a fixed text for the client and the real one in the log, once'),
      fault(
        ERRORS_SOURCE,
        "'the request classifier failed, so the request was not routed; send it again',",
        'String(thrown),',
      ),
    ),
    rule(
      'classify-rejects',
      'So does what is rejected, and the classifier keeps serving.',
      test(
        'src/road/hostile-classifiers.test.ts',
        'a classifier that rejects > costs that request at most; one before, beside and after it are served',
      ),
      fault(
        'src/host/classifier-errors.ts',
        "invalid ? 'PM_CLASSIFIER_INVALID' : 'PM_CLASSIFIER_THREW',",
        "'PM_CLASSIFIER_INVALID',",
      ),
    ),
    rule(
      'classify-invalid',
      'So does an answer that is no set of overrides.',
      test(
        'src/road/hostile-classifiers.test.ts',
        'a classifier that answers junk > costs that request at most; one before, beside and after it are served',
      ),
      fault(
        'src/host/classifier-overrides.ts',
        "if (typeof value !== 'object' || value === null || Array.isArray(value)) {",
        'if (value === null || Array.isArray(value)) {',
      ),
    ),
    rule(
      'classify-timeout',
      'A request that waits longer than `max_wait` gets 503.',
      test(
        STAGE,
        'a classification > that never comes ends with the configured wait, and costs that request alone',
      ),
      fault(STAGE_SOURCE, 'clock.schedule(maxWaitMs, () => {', 'clock.schedule(maxWaitMs + 1, () => {'),
    ),
    rule(
      'classify-timeout-default',
      '`max_wait` is 60 s unless configured.',
      test(
        'src/host/classifiers.test.ts',
        'a classifier > is created once per model at the start, sees its workers, and is disposed',
      ),
      fault('src/config/schema-selection.ts', 'MAX_WAIT_MS = 60_000', 'MAX_WAIT_MS = 30_000'),
    ),
    rule(
      'classify-tripped',
      'While the breaker of a classifier is tripped, requests pass as they are.',
      failure('trips the breaker when it is repeated: requests pass as they are, then one call decides'),
      fault(
        'src/host/classifier-stage.ts',
        'if (guard?.admits() === false) {',
        'if (guard?.admits() === undefined) {',
      ),
    ),
    rule(
      'classify-tripped-refuse',
      'Or they are refused with 503, as configured.',
      failure('ends in refusals while it is tripped, where the configuration says so'),
      fault(STAGE_SOURCE, 'if (refusesWhenTripped) {', 'if (refusesWhenTripped === undefined) {'),
    ),
    rule(
      'classify-probe',
      'The call that tries it is settled by its answer, or tried again when its client leaves.',
      failure('of late answers trips it as well; a probe that waits decides when it answers'),
      fault(STAGE_SOURCE, "guard?.settledLater('none', isProbe);", ''),
    ),
    rule(
      'classify-under-way',
      'Requests that wait count as under way.',
      WAITING,
      fault(
        'src/road/exchange.ts',
        'if (!isAside(request)) state.underWay += 1;',
        'if (isAside(request)) state.underWay += 1;',
      ),
    ),
    rule(
      'classify-client-leaves',
      'A client that leaves ends the wait: its request is never booked.',
      WAITING,
      fault(
        LIFECYCLE_SOURCE,
        'const answered = this.#takeAnswered();\n    this.#tell(event,',
        'const answered = this.ended ? null : this.#takeAnswered();\n    this.#tell(event,',
      ),
    ),
    rule(
      'classify-late-answer',
      'An answer that comes after the end changes nothing, for that request or a later one of its id.',
      test(
        STAGE,
        'a classification > that comes after the end changes nothing, for that request or a later one of the same id',
      ),
      fault(STAGE_SOURCE, 'if (over) return false;', ''),
    ),
    rule(
      'classify-stop',
      'A router that stops refuses those who wait.',
      test(STAGE, 'closing refuses those who wait, and nothing is told any more'),
      fault(STAGE_SOURCE, 'if (lifecycle.waiting) lifecycle.refuse(classifierClosed(), true);', ''),
    ),
    rule(
      'classify-counted',
      'What became of classifications is counted by result and code.',
      LIVE,
      fault(STAGE_SOURCE, "this.#count('refused', refusal.code);", ''),
    ),
    rule(
      'classify-watchdog',
      'A classifier that never returns ends the process, and the log names it.',
      {
        file: 'tests/watchdog.test.ts',
        name: 'an endless loop in a request classifier ends the router and is named',
        by: 'process',
      },
      fault(STAGE_SOURCE, 'const startedAt = guard?.begin() ?? 0;', 'const startedAt = 0;'),
    ),
  ],
};

/** What it is told. */
export const LIFECYCLE_RULES: ContractSection = {
  title: 'Request classifiers: events',
  rules: [
    rule(
      'events-order',
      '`onEvent` hears `sent`, `responding`, then `completed` or `aborted`, in this order.',
      events('come in order, and the end once, whatever the road repeats'),
      fault(LIFECYCLE_SOURCE, 'this.sent(worker);', ''),
    ),
    rule(
      'events-one-end',
      'Each request has exactly one terminal event.',
      test('src/host/classifier-lifecycle.property.test.ts', 'keeps its promises under any interleaving'),
      fault(LIFECYCLE_SOURCE, "if (!this.#advance('ended')) return;", "this.#advance('ended');"),
    ),
    rule(
      'events-type',
      'The compiler knows what each event carries.',
      {
        file: 'src/plugin/request-classifier.test.ts',
        name: 'defineRequestClassifier > shows the request and the events as they are',
        by: 'compiler',
      },
      fault(
        'src/plugin/request-classifier.ts',
        "| { readonly kind: 'sent'; readonly requestId: string; readonly worker: WorkerRank }",
        "| { readonly kind: 'sent'; readonly requestId: string; readonly worker: WorkerRank; readonly contextTokens: number }",
      ),
    ),
    rule(
      'events-stream',
      '`completed` carries worker and tokens of prompt and answer.',
      lifecycle('of a stream'),
      fault(
        'src/host/classifier-lifecycle.ts',
        "kind: 'completed',\n      requestId: this.facts.requestId,\n      worker: worker === null ? null : frozenRank(worker),",
        "kind: 'completed',\n      requestId: this.facts.requestId,\n      worker: null,",
      ),
    ),
    rule(
      'events-lost',
      '`aborted` carries the code of the error that ended the request.',
      lifecycle('of a worker that is lost'),
      fault(
        'src/road/followed-lifecycle.ts',
        'this.#lifecycle.aborted(this.#worker, error);',
        'this.#lifecycle.aborted(this.#worker, null);',
      ),
    ),
    rule(
      'events-left',
      'Where the client left there is none.',
      lifecycle('of a client that leaves'),
      fault(
        'src/road/followed-lifecycle.ts',
        'this.#lifecycle.aborted(this.#worker, error);',
        "this.#lifecycle.aborted(this.#worker, error ?? 'PM_INTERNAL');",
      ),
    ),
    rule(
      'events-refused',
      'A request that ends before it is sent has its end, too, without a worker.',
      lifecycle('of a request that nobody can take'),
      fault('src/road/exchange.ts', 'this.#lifecycle?.ended(null, error.code);', ''),
    ),
    rule(
      'events-unasked',
      'Of requests that passed while it was tripped it hears nothing.',
      failure('trips the breaker when it is repeated: requests pass as they are, then one call decides'),
      fault(LIFECYCLE_SOURCE, 'this.#silent = !classification.asked;', 'this.#silent = false;'),
    ),
    rule(
      'events-listener',
      'A classifier without `classify` changes nothing and hears everything.',
      events('reach a classifier that only listens'),
      fault(
        'src/host/classifiers.ts',
        'isIdle: classify === null && onEvent === null',
        'isIdle: classify === null',
      ),
    ),
    rule(
      'events-one-by-one',
      'Events are told one at a time: the next waits for the promise of the one before.',
      ONE_BY_ONE,
      fault(EVENTS_SOURCE, 'if (!isThenable(result)) return false;', 'return false;'),
    ),
    rule(
      'events-limit',
      'It waits 10 s at most.',
      ONE_BY_ONE,
      fault(EVENTS_SOURCE, 'EVENT_LIMIT_MS = 10_000', 'EVENT_LIMIT_MS = 20_000'),
    ),
    rule(
      'events-throw',
      'A handler that throws costs nothing; it is logged.',
      ONE_BY_ONE,
      fault(EVENTS_SOURCE, 'failed(thrown);\n      return false;', 'throw thrown;'),
    ),
    rule(
      'events-kept',
      'No event is dropped: while 65,536 wait, new requests pass unasked.',
      test(
        STAGE,
        'while too many events wait to be heard new requests pass unasked, and none of the events is lost',
      ),
      fault(STAGE_SOURCE, 'MOST_EVENTS = 65_536', 'MOST_EVENTS = 70_000'),
    ),
    rule(
      'events-id-in-use',
      'One request per id is under way: a second one gets 409.',
      ids('of a request under way cannot be used again'),
      fault(
        STAGE_SOURCE,
        'if (known !== undefined && !known.ended) throw duplicateRequest(this.#options.type);',
        '',
      ),
    ),
    rule(
      'events-id-again',
      'An id that comes back is asked about only after its earlier end was heard.',
      ids('that come back wait until the classifier has heard of the end of the first'),
      fault(LIFECYCLE_SOURCE, 'if (!this.#stage.awaitsEarlier(this)) this.ask();', 'this.ask();'),
    ),
    rule(
      'events-held',
      'A classifier is not disposed before the end of each of its requests was heard.',
      test(STAGE, 'a request holds its classifier until its end was heard, and no longer'),
      fault(STAGE_SOURCE, 'this.#options.hold?.retain();', ''),
    ),
  ],
};
