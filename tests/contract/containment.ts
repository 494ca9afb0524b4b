import { type ContractSection, fault, rule, test } from './rule.ts';

const CONTAINMENT = 'src/host/containment.test.ts';
const BREAKER = 'src/host/breaker.test.ts';
const BREAKER_SOURCE = 'src/host/breaker.ts';
const GUARD_SOURCE = 'src/host/plugin-guard.ts';
const DEFAULTS = test('src/config/load.test.ts', 'the defaults are those of an empty file');
const HOSTILE = 'tests/hostile-plugins.test.ts';
const TRIPS = test(
  BREAKER,
  'a breaker > trips at the 5th failure within 30 s, lets nobody through for 10 s, then one call that decides',
);
const OVERRUNS = test(
  CONTAINMENT,
  'a policy that takes longer than the budget > is counted, and tripped by the 50th call',
);
const SELECTION = test(
  CONTAINMENT,
  'a worker-selection policy > trips by its failures and not by answering that nobody is left',
);
const watchdog = (what: string) =>
  ({
    file: 'tests/watchdog.test.ts',
    name: `an endless loop in ${what} ends the router and is named`,
    by: 'process',
  }) as const;

/** What plugins cannot break. */
export const CONTAINMENT_RULES: ContractSection = {
  title: 'Containment',
  rules: [
    rule(
      'contain-timed',
      'Every call of a worker-selection or hint policy is timed; one over the soft budget is counted and shown.',
      OVERRUNS,
      fault(GUARD_SOURCE, 'this.#overruns += 1;', ''),
    ),
    rule(
      'contain-budget',
      'The soft budget is 1 ms unless configured.',
      DEFAULTS,
      fault(
        'src/config/schema.ts',
        'soft_budget: or(duration(0, HOUR), 1),',
        'soft_budget: or(duration(0, HOUR), 2),',
      ),
    ),
    rule(
      'contain-no-budget',
      'A budget of 0 is none.',
      test(
        CONTAINMENT,
        'a policy that takes longer than the budget > may take as long as it likes with a budget of 0, or where there is no wall clock',
      ),
      fault(GUARD_SOURCE, 'settings.softBudgetMs > 0 ? ports.wallMs : null;', 'ports.wallMs;'),
    ),
    rule(
      'contain-failures',
      'A plugin trips at the 5th failure within 30 s.',
      TRIPS,
      fault(
        BREAKER_SOURCE,
        'nowMs - (times[this.#next] ?? 0) <= windowMs',
        'nowMs - (times[this.#next] ?? 0) < windowMs',
      ),
    ),
    rule(
      'contain-window',
      'Failures further apart do not trip it.',
      test(BREAKER, 'a breaker > does not trip when the 5th failure comes later than 30 s after the first'),
      fault(BREAKER_SOURCE, 'this.#count === times.length && nowMs', 'this.#count === times.length || nowMs'),
    ),
    rule(
      'contain-overruns',
      'It trips at the 50th overrun, counted apart from failures.',
      test(
        BREAKER,
        'a breaker > trips at the 50th overrun, counted apart from failures, and an overrunning probe trips it again',
      ),
      fault(BREAKER_SOURCE, "outcome === 'failed' ? this.#failures : this.#overruns;", 'this.#failures;'),
    ),
    rule(
      'contain-skip',
      'For 10 s it is skipped.',
      TRIPS,
      fault(BREAKER_SOURCE, 'this.#until = nowMs + this.#settings.skipMs;', 'this.#until = nowMs;'),
    ),
    rule(
      'contain-probe',
      'Then one call tries it, and no other until that is settled.',
      TRIPS,
      fault(BREAKER_SOURCE, "(this.#state === 'tripped' && nowMs >= this.#until);", 'nowMs >= this.#until;'),
    ),
    rule(
      'contain-numbers',
      'These numbers are configured; the defaults are 5, 50, 30 s and 10 s.',
      DEFAULTS,
      fault(
        'src/config/schema.ts',
        'failures: or(whole(1, 10_000), 5),',
        'failures: or(whole(1, 10_000), 6),',
      ),
    ),
    rule(
      'contain-configured',
      'The breaker keeps to the numbers of the configuration.',
      test(CONTAINMENT, 'a hint policy that fails > keeps to the numbers of the configuration'),
      fault('src/config/build.ts', 'windowMs: containment.breaker.window,', 'windowMs: 30_000,'),
    ),
    rule(
      'contain-hint-skipped',
      'A tripped hint policy is skipped, and the record says so.',
      test(
        CONTAINMENT,
        'a hint policy that fails > is skipped from the 5th failure on for 10 s, probed once, and called again when the probe goes well',
      ),
      fault('src/host/hint-stage.ts', 'if (guard?.admits() === false) {', 'if (guard === undefined) {'),
    ),
    rule(
      'contain-selection-skipped',
      'A tripped worker-selection policy is not called: the default cost chooses instead.',
      test(
        HOSTILE,
        'with the breaker of the default configuration > a broken worker selection is replaced by the default cost',
      ),
      fault('src/host/guarded-selection.ts', 'if (!guard.admits()) throw policyTripped(site);', ''),
    ),
    rule(
      'contain-selection-refused',
      'Or requests are refused with 503, as configured.',
      test(
        HOSTILE,
        'with the breaker of the default configuration > or requests are refused with 503, where the configuration says so',
      ),
      fault(
        'src/scheduling/policy-choice.ts',
        "if (code === 'PM_SELECTION_TRIPPED' && runtime.refusesWhenTripped) throw thrown;",
        '',
      ),
    ),
    rule(
      'contain-no-failure',
      'That nobody is left is no failure.',
      SELECTION,
      fault(
        'src/host/guarded-selection.ts',
        'failed = !(thrown instanceof PointsmanError && isRefusal(thrown.code));',
        'failed = thrown !== null;',
      ),
    ),
    rule(
      'contain-per-plugin',
      'There is one breaker per plugin and role, over all partitions.',
      test(CONTAINMENT, 'a worker-selection policy > trips in its role alone, whatever the partition'),
      fault(GUARD_SOURCE, 'if (known !== undefined) return known;', ''),
    ),
    rule(
      'contain-hostile-hints',
      'Whatever a hostile hint policy throws or returns, the envelopes of others are byte-equal with and without it.',
      test(
        HOSTILE,
        'beside a hostile plugin the good one makes the same envelopes as alone > hint policy: mutates',
      ),
      fault('src/host/copy-locations.ts', 'Object.freeze(this);', ''),
    ),
    rule(
      'contain-hostile-selection',
      'Nor does a broken worker-selection policy change them.',
      test(
        HOSTILE,
        'beside a hostile plugin the good one makes the same envelopes as alone > worker selection: rows_out_of_range',
      ),
      fault(
        'src/scheduling/policy-choice.ts',
        'return this.#chooseByDefault(table, facts, request, thrown);',
        'throw thrown;',
      ),
    ),
    rule(
      'contain-watchdog',
      'A call that never returns ends the process, and the last line of the log names the hint policy.',
      watchdog('a hint policy'),
      fault(
        'src/cli/watchdog.ts',
        'Atomics.store(this.#words, RUNNING, id);',
        'Atomics.store(this.#words, RUNNING, Math.min(id, 0));',
      ),
    ),
    rule(
      'contain-watchdog-selection',
      'It names a worker-selection policy as well.',
      watchdog('a worker-selection policy'),
      fault('src/host/guarded-selection.ts', 'const startedAt = guard.begin();', 'const startedAt = 0;'),
    ),
    rule(
      'contain-watchdog-limit',
      'The watchdog waits 10 s unless configured.',
      DEFAULTS,
      fault(
        'src/config/schema.ts',
        'watchdog: or(duration(100, HOUR), 10_000),',
        'watchdog: or(duration(100, HOUR), 20_000),',
      ),
    ),
    rule(
      'contain-dispose',
      'All `dispose` calls together have 5 s; a router stops all the same.',
      test(
        'src/host/plugin-loader.test.ts',
        'a plugin that waits for something that never comes > in dispose does not keep a router from stopping',
      ),
      fault('src/host/time-limit.ts', 'DISPOSE_LIMIT_MS = 5_000', 'DISPOSE_LIMIT_MS = 4_000'),
    ),
  ],
};
