import { type ContractSection, fault, rule, test } from './rule.ts';

const TESTS = 'src/host/isolation/classifier-isolation.test.ts';
const PLAN_SOURCE = 'src/host/thread-plans.ts';
const STAGE_SOURCE = 'src/host/classifier-stage.ts';
const GUEST_SOURCE = 'src/host/isolation/classifier-guest.ts';
const WORK_SOURCE = 'src/host/isolation/classifier-work.ts';
const PROXY_SOURCE = 'src/host/isolation/isolated-classifier.ts';
const isolated = (what: string) => test(TESTS, `a classifier in a thread > ${what}`);
const hostile = (what: string) => test(TESTS, `a hostile classifier in a thread > ${what}`);
const live = (what: string) => ({
  file: 'tests/classifier-threads.test.ts',
  name: `a classifier in a thread > ${what}`,
  by: 'process' as const,
});
const SEES = isolated('sees the request, its partition and the workers as they are');
const ANSWERS = isolated('answers with overrides and refusals as in process');
const WAITS = isolated('lets requests wait, on events and on its clock, and be left');
const ELSEWHERE = isolated(
  'runs in process where the configuration says so, or nothing may depend on threads',
);
const PICKY = isolated('that cannot start ends the start in its own words');
const LOOPS = hostile('that hangs (loop) costs that request, others pass, and its thread is replaced');
const ENDS = hostile('that ends its process costs that request, and repetition trips its breaker');
const EVENT_ENDS = hostile('that ends over an event (eventexit) costs no request its answer');

/** Request classifiers in threads of their own. */
export const CLASSIFIER_THREAD_RULES: ContractSection = {
  title: 'Request classifiers in threads of their own',
  intro:
    'What holds for hint policies in threads about loading, parameters, log, memory and pauses between threads holds for classifiers as well.',
  rules: [
    rule(
      'isolate-classifier-author',
      '`isolation: thread` in the definition of a classifier has it run in a thread.',
      SEES,
      fault(
        PLAN_SOURCE,
        'if (!runsInThread(entry, prepared.type, prepared, problems)) return null;',
        "if (prepared.isolation === 'thread') return null;",
      ),
    ),
    rule(
      'isolate-classifier-configured',
      '`isolation` beside its type in YAML decides.',
      ELSEWHERE,
      fault(
        PLAN_SOURCE,
        'runsInThread(entry, prepared.type, prepared, problems)',
        'runsInThread({ ...entry, isolation: null }, prepared.type, prepared, problems)',
      ),
    ),
    rule(
      'isolate-classifier-snapshot',
      'The request goes to the thread by value, with its session and pin.',
      SEES,
      fault(
        GUEST_SOURCE,
        'pinnedWorker: pinnedWorker === null ? null : Object.freeze(pinnedWorker),',
        'pinnedWorker: null,',
      ),
    ),
    rule(
      'isolate-classifier-frozen',
      'There it is frozen, and so are the workers.',
      SEES,
      fault(GUEST_SOURCE, 'return Object.freeze(workers);', 'return workers;'),
    ),
    rule(
      'isolate-classifier-context',
      '`create` is given partition, block size, log, clock and random numbers in the thread as it is in process.',
      SEES,
      fault(
        GUEST_SOURCE,
        'partition: Object.freeze(partition), blockSize, workers:',
        'partition: Object.freeze(partition), blockSize: null, workers:',
      ),
    ),
    rule(
      'isolate-classifier-workers',
      '`workers()` follows the fleet: before the next call the thread is told what changed.',
      SEES,
      fault(
        PROXY_SOURCE,
        'if (version === this.#version) return;',
        'if (this.#version !== undefined) return;',
      ),
    ),
    rule(
      'isolate-classifier-same',
      'In a thread a classifier answers what it answers in process, in the same order, for any order of requests and events.',
      test('src/host/isolation/classifier-equivalence.test.ts', 'answers the same in a thread as in process'),
      fault(
        'src/host/isolation/thread-guest.ts',
        'const rng = seededRng(seed);',
        'const rng = seededRng(seed + 1);',
      ),
    ),
    rule(
      'isolate-classifier-overrides',
      'Overrides come back by value, ids of workers exact to 64 bits.',
      ANSWERS,
      fault(
        PROXY_SOURCE,
        "return { kind: 'answered', value: answer.overrides };",
        "return { kind: 'answered', value: undefined };",
      ),
    ),
    rule(
      'isolate-classifier-invalid',
      'An answer that is no set of overrides fails that request as it does in process.',
      ANSWERS,
      fault(PROXY_SOURCE, 'new InvalidOverrides(answer.text)', 'new Error(answer.text)'),
    ),
    rule(
      'isolate-classifier-refusals',
      'Refusals keep their status, text and `Retry-After`.',
      ANSWERS,
      fault(
        PROXY_SOURCE,
        'new RateLimited(answer.retryAfterSeconds, answer.message)',
        'new CapacityExhausted(answer.message)',
      ),
    ),
    rule(
      'isolate-classifier-throws',
      'What else it throws fails that request alone; its text is in the log, cut to 2,000 characters.',
      ANSWERS,
      fault(
        GUEST_SOURCE,
        "return { kind: 'threw', text: errorText(thrown).slice(0, MOST_TEXT) };",
        "return { kind: 'threw', text: '' };",
      ),
    ),
    rule(
      'isolate-classifier-events',
      'It hears the events of its requests in order, one at a time.',
      WAITS,
      fault(
        PROXY_SOURCE,
        "const isEnd = event.kind === 'completed' || event.kind === 'aborted';",
        "if (event.kind === 'responding') return;\n    const isEnd = event.kind === 'completed' || event.kind === 'aborted';",
      ),
    ),
    rule(
      'isolate-classifier-clock',
      'Its clock begins with the reading of the router and runs on by the machine’s time; its timers run in the thread.',
      test(
        'src/host/isolation/thread-clock.test.ts',
        'for a plugin that waits it runs on, and never goes back',
      ),
      fault('src/host/isolation/thread-clock.ts', 'now: () => set + elapsed(),', 'now: () => set,'),
    ),
    rule(
      'isolate-classifier-event-throws',
      'An `onEvent` that throws is counted, and hears the next event.',
      hostile('that throws in onEvent is counted, and hears the next event'),
      fault(PROXY_SOURCE, 'if (failed !== null) this.#options.eventFailed(new Error(failed));', ''),
    ),
    rule(
      'isolate-classifier-waits',
      'An answer that is put off is waited for up to `max_wait`, whatever the deadline: that is for taking a request, not for answering it.',
      isolated('is given up by a request after max_wait alone'),
      fault(WORK_SOURCE, 'return this.#taken(message.task);', 'return this.#untaken.has(message.task);'),
    ),
    rule(
      'isolate-classifier-late-answer',
      'An answer to a request that was left is for nobody, and is not held against the thread.',
      isolated('may answer late whom nobody waits for any more, however many'),
      fault(WORK_SOURCE, 'else if (this.#forgotten > 0) this.#forgotten -= 1;', ''),
    ),
    rule(
      'isolate-classifier-deadline',
      'A thread that takes nothing it is given for the deadline, 50 ms unless configured, is replaced.',
      LOOPS,
      fault(
        WORK_SOURCE,
        'schedule(this.#deadlineMs, () => this.#overdue(oldest))',
        'schedule(this.#deadlineMs - 1, () => this.#overdue(oldest))',
      ),
    ),
    rule(
      'isolate-classifier-late',
      'The request it was at gets 503 PM_CLASSIFIER_TIMEOUT.',
      LOOPS,
      fault(WORK_SOURCE, "this.#lost({ kind: 'timed_out' });", "this.#lost({ kind: 'lost' });"),
    ),
    rule(
      'isolate-classifier-others',
      'Others that wait then are treated as while it is tripped: they pass, or are refused.',
      LOOPS,
      fault(
        WORK_SOURCE,
        "else task.verdict(id === culprit ? verdict : { kind: 'lost' });",
        'else task.verdict(id === culprit ? verdict : verdict);',
      ),
    ),
    rule(
      'isolate-classifier-restarting',
      'So are those that come before the next thread is there: nobody waits for it.',
      LOOPS,
      fault(
        STAGE_SOURCE,
        'guard?.skip();\n      this.#skip(lifecycle);',
        'guard?.skip();\n      this.#timedOut(lifecycle);',
      ),
    ),
    rule(
      'isolate-classifier-ping',
      'While requests wait, the thread is asked every second whether it lives.',
      hostile('that hangs after its answer was put off is found out between times'),
      fault(WORK_SOURCE, 'this.#untaken.add(id);\n    this.#watch();', 'this.#watch();'),
    ),
    rule(
      'isolate-classifier-died',
      'One that ends its process ends its thread alone; the request it was at fails with the text of the router.',
      ENDS,
      fault(WORK_SOURCE, "this.#lost({ kind: 'died', error: why });", "this.#lost({ kind: 'timed_out' });"),
    ),
    rule(
      'isolate-classifier-breaker',
      'Repetition trips its breaker.',
      ENDS,
      fault(STAGE_SOURCE, 'judged(!isRefusal(answer.thrown));', 'judged(false);'),
    ),
    rule(
      'isolate-classifier-event-ends',
      'A thread that ends over an event costs no request an answer of its own: those that wait are treated as while it is tripped.',
      EVENT_ENDS,
      fault(WORK_SOURCE, 'const [culprit] = this.#untaken;', 'const culprit = [...this.#tasks].at(-2)?.[0];'),
    ),
    rule(
      'isolate-classifier-forgets',
      'The next thread begins with nothing, and hears nothing of requests that an earlier one was asked about.',
      EVENT_ENDS,
      fault(PROXY_SOURCE, 'if (isOrphan || !this.ready) {', 'if (!this.ready) {'),
    ),
    rule(
      'isolate-classifier-forges',
      'It can forge no answer but those of its own requests, and a thread that sends what nobody asked for is replaced.',
      hostile('that forges answers or floods costs its thread, not the router'),
      fault('src/host/isolation/message-budget.ts', 'MOST_AT_ONCE = 1000', 'MOST_AT_ONCE = 10_000'),
    ),
    rule(
      'isolate-classifier-reload',
      'A request that waits in the thread of an older version is answered by that, which is told its end and then ends.',
      test(
        'src/host/isolation/classifier-reload.test.ts',
        'a request that waits in a thread is answered by its own version, which hears its end and then goes',
      ),
      fault('src/host/classifiers.ts', 'hold: hold ?? null,', 'hold: null,'),
    ),
    rule(
      'isolate-classifier-disposed',
      'At the end it is disposed in its thread, once for each partition.',
      isolated('has one thread for all partitions, and is disposed in it'),
      fault(GUEST_SOURCE, 'return site.classifier.dispose;', 'return null;'),
    ),
    rule(
      'isolate-classifier-start',
      'What keeps it from loading or being created in its thread ends the start, in its own words.',
      PICKY,
      fault(
        'src/host/thread-start.ts',
        'const threw = `create of request classifier ${prepared.type} threw for model ${partition.model}`;',
        "const threw = '';",
      ),
    ),
    rule(
      'isolate-classifier-built-in',
      'The built-in classifier cannot be isolated.',
      PICKY,
      fault(
        PLAN_SOURCE,
        'if (!runsInThread(entry, prepared.type, prepared, problems)) return null;',
        'if (prepared.origin.version === BUILT_IN_VERSION || !runsInThread(entry, prepared.type, prepared, problems)) return null;',
      ),
    ),
    rule(
      'isolate-classifier-live',
      'In the running program a classifier in a thread refuses with status and `Retry-After`, and lets requests wait while others are served.',
      live('refuses with status and Retry-After, and lets requests wait while others are served'),
      fault('src/cli/running-router.ts', 'threads: threadModules(),', '...(threadModules() ? {} : {}),'),
    ),
    rule(
      'isolate-classifier-live-loop',
      'There an endless loop costs its own request, within the deadline; requests that wait and those that come are served.',
      live('that loops for ever costs its own request, and the others are served'),
      fault(
        WORK_SOURCE,
        "else task.verdict(id === culprit ? verdict : { kind: 'lost' });",
        'else task.verdict(id === culprit ? verdict : verdict);',
      ),
    ),
  ],
};
