import { type ContractSection, fault, rule, test } from './rule.ts';

const ISOLATION = 'src/host/isolation/isolation.test.ts';
const PLAN_SOURCE = 'src/host/thread-plans.ts';
const KEEPER_SOURCE = 'src/host/isolation/thread-keeper.ts';
const STAGE_SOURCE = 'src/host/waiting-hint-stage.ts';
const isolated = (what: string) => test(ISOLATION, `a policy in a thread > ${what}`);
const hostile = (what: string) => test(ISOLATION, `a hostile policy in a thread > ${what}`);
const memory = (what: string) =>
  test('src/host/isolation/memory.test.ts', `a hint policy in a thread > ${what}`);
const start = (what: string) => test(ISOLATION, `a start > ${what}`);
const booking = (what: string) => test('src/road/threaded-hints.test.ts', `a booking that waits > ${what}`);
const ORDER = isolated('answers in list order with the others, its parameters as they stand in YAML');
const SAME = test('src/host/isolation/equivalence.test.ts', 'makes no difference to an envelope');
const PICKY = start(
  'refuses what create throws in the thread, and the deadline of one in process is of no use',
);

/** Hint policies in threads of their own. */
export const ISOLATION_RULES: ContractSection = {
  title: 'Hint policies in threads of their own',
  rules: [
    rule(
      'isolate-author',
      '`isolation: thread` in a definition has its instances run in threads.',
      ORDER,
      fault(
        PLAN_SOURCE,
        "(isolation ?? prepared.isolation) === 'in-process'",
        "(isolation ?? 'in-process') === 'in-process'",
      ),
    ),
    rule(
      'isolate-configured',
      '`isolation` beside the type in YAML decides.',
      isolated('runs in process where the configuration says so, or nothing may depend on threads'),
      fault(
        PLAN_SOURCE,
        "(isolation ?? prepared.isolation) === 'in-process'",
        "prepared.isolation === 'in-process'",
      ),
    ),
    rule(
      'isolate-virtual-time',
      'In virtual time all policies run in process; the log says so once.',
      isolated('runs in process where the configuration says so, or nothing may depend on threads'),
      fault('src/host/thread-start.ts', "if (plugins === '') return;", "if (plugins !== '') return;"),
    ),
    rule(
      'isolate-parameters',
      'The thread loads the module and parses the raw parameters of the YAML itself.',
      ORDER,
      fault(
        'src/host/isolation/thread-instances.ts',
        'const start = { folder, specifier, files, kind, type, parameters, modules };',
        'const start = { folder, specifier, files, kind, type, parameters: {}, modules };',
      ),
    ),
    rule(
      'isolate-own-state',
      'Each listed entry has a thread, and with it a module state, of its own.',
      ORDER,
      fault(
        PLAN_SOURCE,
        "return plan('hint', entry.path.join('.'), entry.name,",
        "return plan('hint', prepared.type, entry.name,",
      ),
    ),
    rule(
      'isolate-one-thread',
      'All partitions of an entry share its thread.',
      test(
        'src/host/isolation/thread-instances.test.ts',
        'an instance has one thread however often it is started, and there is a most',
      ),
      fault('src/host/isolation/thread-instances.ts', 'if (this.#instances.has(key)) return;', ''),
    ),
    rule(
      'isolate-most',
      'There are 16 threads at most; one more ends the start.',
      test(
        'src/host/isolation/thread-instances.test.ts',
        'an instance has one thread however often it is started, and there is a most',
      ),
      fault(
        'src/host/isolation/thread-instances.ts',
        'if (this.#instances.size === this.#most) {',
        'if (this.#instances.size > this.#most) {',
      ),
    ),
    rule(
      'isolate-same',
      'An isolated policy makes the envelopes it makes in process: its context is a copy of the same facts.',
      SAME,
      fault('src/host/isolation/wire-context.ts', '...(load === undefined ? {} : { load }),', ''),
    ),
    rule(
      'isolate-owners',
      'Of copy locations it is told the best 32 owners.',
      test('src/host/isolation/messages.test.ts', 'lists and texts have a most'),
      fault('src/host/isolation/messages.ts', 'MOST_OWNERS = 32', 'MOST_OWNERS = 33'),
    ),
    rule(
      'isolate-best-source',
      'Whatever minimum it asks for, `bestSource` answers what it answers in process.',
      SAME,
      fault(
        'src/host/isolation/copy-snapshot.ts',
        'minimum = copy.additionalBlocks + 1;',
        'minimum = Number.MAX_SAFE_INTEGER;',
      ),
    ),
    rule(
      'isolate-frozen',
      'The copy is frozen, with null for inputs that are switched off.',
      test(
        'src/host/isolation/wire-context.test.ts',
        'a context arrives frozen, equal to what was sent, with null for inputs that are switched off',
      ),
      fault(
        'src/host/isolation/wire-context.ts',
        '...Object.fromEntries(switchedOff.map((name) => [name, null])),',
        '',
      ),
    ),
    rule(
      'isolate-held',
      'The booking is held until the thread has answered; then the request goes out with what it answered.',
      booking('is held, and goes out with what the thread answered'),
      fault('src/road/walk.ts', 'return HELD;', 'return null;'),
    ),
    rule(
      'isolate-list-order',
      'Its actions stand in list order among those of the others, whoever answers first.',
      ORDER,
      fault(
        STAGE_SOURCE,
        'for (const hint of this.#hints) if (hint !== this.#sender?.hint) this.#enter(hint);',
        'for (const hint of [...this.#hints].reverse()) if (hint !== this.#sender?.hint) this.#enter(hint);',
      ),
    ),
    rule(
      'isolate-client-leaves',
      'A client that leaves frees the held booking, once.',
      booking('is freed once when its client goes away, and the answer that comes then is for nobody'),
      fault(
        'src/road/end-booking.ts',
        'scheduler.release(booking.attempt);\n  state.loadFell',
        'state.loadFell',
      ),
    ),
    rule(
      'isolate-worker-lost',
      'So does the loss of its worker.',
      booking('fails when its worker is lost, and is freed'),
      fault('src/road/road.ts', 'if (exchange.workerId !== workerId) continue;', 'continue;'),
    ),
    rule(
      'isolate-deadline',
      'Past the deadline the actions are dropped, and the request goes out without them.',
      hostile('that never returns is given up at its deadline, and its thread is replaced'),
      fault(
        'src/host/isolation/hint-work.ts',
        'schedule(deadlineMs, () => this.#overdue(call));',
        'schedule(deadlineMs - 1, () => this.#overdue(call));',
      ),
    ),
    rule(
      'isolate-deadline-default',
      'The deadline is 50 ms unless configured.',
      booking(
        'waits no longer than the deadline, and those that follow not at all while the thread is replaced',
      ),
      fault(PLAN_SOURCE, 'DEFAULT_DEADLINE_MS = 50', 'DEFAULT_DEADLINE_MS = 40'),
    ),
    rule(
      'isolate-in-time',
      'An answer that came in time counts, however late the router looks.',
      hostile('whose answer came in time is heard, however late the router looks'),
      fault(KEEPER_SOURCE, 'this.#running?.thread.drain();', ''),
    ),
    rule(
      'isolate-skipped',
      'While a thread is replaced the policy is skipped, and nobody waits for it.',
      hostile('that never returns is given up at its deadline, and its thread is replaced'),
      fault(
        STAGE_SOURCE,
        'guard?.skip();\n      this.#outcomes.set(hint, RESTARTING);',
        'this.#outcomes.set(hint, TRIPPED);',
      ),
    ),
    rule(
      'isolate-died',
      'A policy that ends its process ends its thread alone; its actions are dropped.',
      hostile('that ends its process ends its thread, which is replaced'),
      fault('src/host/isolation/hint-work.ts', "{ kind: 'thread_died', error: why });", "{ kind: 'lost' });"),
    ),
    rule(
      'isolate-memory',
      'A thread found to hold more than 256 MiB after a collection, typed arrays included, is replaced and says so.',
      memory('that leaks objects is replaced once it holds more than a thread may'),
      fault('src/host/isolation/memory-watch.ts', 'THREAD_HEAP_MIB = 256', 'THREAD_HEAP_MIB = 16'),
    ),
    rule(
      'isolate-memory-call',
      'A call that allocates without end is given up at its deadline. Not contained: one that allocates about 1 GiB before it.',
      memory('that allocates without end within a call is given up at its deadline'),
      fault(
        'src/host/isolation/hint-work.ts',
        "this.keeper.giveUp('its deadline passed');",
        "this.keeper.giveUp('it was late');",
      ),
    ),
    rule(
      'isolate-pauses',
      'The next thread starts at once, then after longer and longer pauses while threads keep ending.',
      test(
        'src/host/isolation/restart-pauses.test.ts',
        'the next thread comes at once, then later and later, and at once again after a steady one',
      ),
      fault(
        'src/host/isolation/restart-pauses.ts',
        'FIRST_PAUSE_MS * 2 ** (this.#early - 2)',
        'FIRST_PAUSE_MS',
      ),
    ),
    rule(
      'isolate-breaker',
      'Repetition trips the breaker.',
      hostile('that keeps doing it trips its breaker'),
      fault(
        STAGE_SOURCE,
        "guard?.settledLater(isItsDoing ? judged : 'none', isProbe);",
        "guard?.settledLater('ok', isProbe);",
      ),
    ),
    rule(
      'isolate-hostile',
      'Whatever it throws or returns costs its own actions, dropped by the reason it has in process.',
      hostile('costs nothing but its own actions, whatever it returns or throws'),
      fault(
        'src/host/isolation/hint-guest.ts',
        "return dropped(verdict as Dropped['reason'], {",
        "return dropped('malformed', {",
      ),
    ),
    rule(
      'isolate-hostile-live',
      'In the running program a policy that loops or ends its process costs its own actions; those of others stay byte-equal.',
      {
        file: 'tests/thread-isolation.test.ts',
        name: 'a hostile policy in a thread > costs its own actions, and the good one beside it sends byte for byte what it sends alone',
        by: 'process',
      },
      fault('src/cli/running-router.ts', 'threads: threadModules(),', '...(threadModules() ? {} : {}),'),
    ),
    rule(
      'isolate-port',
      'A plugin finds no way to answer for another call.',
      hostile('finds no way to answer for another call'),
      fault('src/host/isolation/isolation-worker.ts', 'delete start.port;', ''),
    ),
    rule(
      'isolate-changed',
      'A thread is not started again with another text of its file.',
      hostile('whose file has changed is not started again with another text'),
      fault(KEEPER_SOURCE, 'if (!sameFiles) {', 'if (sameFiles === undefined) {'),
    ),
    rule(
      'isolate-log',
      'Its log lines are passed on, 100 a second, cut to 2,000 characters.',
      isolated('has its log lines passed on, cut and counted'),
      fault(
        'src/host/isolation/thread-reports.ts',
        'if (this.#lines > LINES_PER_SECOND) {',
        'if (this.#lines < 0) {',
      ),
    ),
    rule(
      'isolate-start',
      'What keeps a thread from loading ends the start, with the plugin’s own words.',
      start('refuses a policy that throws where it is loaded, in its own words'),
      fault(KEEPER_SOURCE, 'cannot run in a thread: ${fault}`', 'cannot run in a thread`'),
    ),
    rule(
      'isolate-create',
      'So does what `create` throws in the thread.',
      PICKY,
      fault(
        'src/host/thread-start.ts',
        'if (fault === null) continue;',
        'if (fault !== undefined) continue;',
      ),
    ),
    rule(
      'isolate-built-in',
      'Built-in policies cannot be isolated.',
      PICKY,
      fault(
        PLAN_SOURCE,
        'if (prepared.origin.version !== BUILT_IN_VERSION) return true;',
        "if (prepared.origin.version !== '') return true;",
      ),
    ),
    rule(
      'isolate-deadline-unused',
      'A deadline of a policy in process is a warning.',
      PICKY,
      fault(PLAN_SOURCE, 'if (deadlineMs !== null) {', 'if (deadlineMs === 0) {'),
    ),
    rule(
      'isolate-disposed',
      'At the end its policies are disposed in the thread, and the thread ends.',
      test(
        ISOLATION,
        'the end > disposes what was created in the thread, and the thread ends with its last policy',
      ),
      fault(
        'src/host/isolation/thread-guest.ts',
        'for (const site of this.#kind.sites()) await this.#dispose(site);',
        '',
      ),
    ),
  ],
};
