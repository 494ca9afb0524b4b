import { type ContractSection, fault, rule, test } from './rule.ts';

const GENERATIONS_SOURCE = 'src/host/generations.ts';
const HOST_SOURCE = 'src/host/reloadable-host.ts';
const LIBRARY_SOURCE = 'src/host/plugin-library.ts';
const ROUTER_SOURCE = 'src/cli/router-reload.ts';
const CONFIG_SOURCE = 'src/config/reloaded-config.ts';
const reload = (what: string) => test('src/host/reloadable-host.test.ts', `a reload > ${what}`);
const probation = (what: string) => test('src/host/reloadable-host.test.ts', `probation > ${what}`);
const generations = (what: string) => test('src/host/generations.test.ts', `generations > ${what}`);
const again = (what: string) => test('src/host/plugin-library.test.ts', `loading again > ${what}`);
const router = (what: string) => test('src/cli/router-reload.test.ts', `reloads > ${what}`);
const watch = (what: string) => test('src/cli/file-watch.test.ts', `a watch > ${what}`);
const live = (name: string) => ({ file: 'tests/reload.test.ts', name, by: 'process' }) as const;
const KEYS = test(
  'src/config/reloaded-config.test.ts',
  'live keys are taken, start keys keep their value, and each that differs is named',
);
const TAKEN_BACK = probation(
  'takes a version back that trips its breaker, after the decision, and does not try it again until it changes',
);

/** Plugins and configuration that change while the router runs. */
export const RELOAD_RULES: ContractSection = {
  title: 'Reload',
  rules: [
    rule(
      'reload-signal',
      '`SIGHUP` reloads a running router.',
      live('a configuration that changes > is read again on SIGHUP, and a mistake in it changes nothing'),
      fault('src/cli/serve.ts', "process.on('SIGHUP', onHangup);", "process.on('SIGHUP', () => undefined);"),
    ),
    rule(
      'reload-command',
      'So does `POST /plugins/reload`, which answers what became of it.',
      test(
        'src/admin/server.test.ts',
        'a reload is asked for by POST and answers what became of it, 409 when nothing changed',
      ),
      fault('src/admin/server.ts', "actions['/plugins/reload'] =", "actions['/plugins/reloads'] ="),
    ),
    rule(
      'reload-file',
      'A changed file does once it was quiet for 200 ms.',
      watch('tells once, 200 ms after the last of several changes'),
      fault('src/cli/file-watch.ts', 'QUIET_MS = 200', 'QUIET_MS = 100'),
    ),
    rule(
      'reload-file-which',
      'Only files of the configuration and of plugins count; after a reload that failed, any source beside them.',
      watch('minds the files it was given, and where asked any source beside them'),
      fault('src/cli/file-watch.ts', '(this.#anySource && SOURCE.test(name));', 'SOURCE.test(name);'),
    ),
    rule(
      'reload-imports',
      'The files of a plugin are its entry and what it imports that is no package.',
      again('watches what was imported, JSON too, and nothing of other packages'),
      fault(
        'src/host/plugin-loader.ts',
        'const paths = [...new Set([named, ...trace.added.keys(), ...trace.used])];',
        'const paths = [named];',
      ),
    ),
    rule(
      'reload-content',
      'What counts is their content: the same again evaluates and builds nothing.',
      reload('of the same content evaluates and builds nothing'),
      fault(HOST_SOURCE, 'if (isSame && samePolicies(', 'if (isSame === undefined && samePolicies('),
    ),
    rule(
      'reload-unchanged',
      'A plugin whose files did not change is not evaluated again.',
      reload('of other settings alone builds anew without evaluating the module again'),
      fault(LIBRARY_SOURCE, '!listed.has(specifier) ||', 'listed.has(specifier) ||'),
    ),
    rule(
      'reload-shared-files',
      'Plugins that share a file are evaluated together.',
      again('takes plugins that share a file together: they see one state before and after'),
      fault(LIBRARY_SOURCE, 'for (const path of module.files.keys()) stale.add(path);', ''),
    ),
    rule(
      'reload-packages',
      'Packages are loaded again on command alone.',
      router('look at packages when they are asked for, and not when a file changed'),
      fault(ROUTER_SOURCE, "packages: trigger !== 'file',", 'packages: true,'),
    ),
    rule(
      'reload-live-keys',
      'Live keys take effect.',
      KEYS,
      fault(CONFIG_SOURCE, 'limits: { ...read.limits, ...keptLimits },', 'limits: running.limits,'),
    ),
    rule(
      'reload-start-keys',
      'A key that only a start can change keeps its value.',
      KEYS,
      fault(CONFIG_SOURCE, 'listen: running.listen,', 'listen: read.listen,'),
    ),
    rule(
      'reload-start-keys-named',
      'Each of them that differs is a warning that names it; the rest is applied.',
      KEYS,
      fault(CONFIG_SOURCE, "waits(['listen', 'port'], running.listen.port, read.listen.port);", ''),
    ),
    rule(
      'reload-workers',
      'Workers that the configuration adds join at once; those it leaves out finish what they have.',
      test(
        'src/cli/worker-changes.test.ts',
        'a busy one finishes what it has, for as long as limits.drain says',
      ),
      fault(
        'src/cli/worker-changes.ts',
        'if (worker !== null && !idle &&',
        'if (worker === undefined && !idle &&',
      ),
    ),
    rule(
      'reload-all-sites',
      'New instances are built for every partition and role in use before anything switches.',
      reload('builds every partition that appeared before anything switches, and drains the old'),
      fault('src/host/resolved-host.ts', 'this.roleRuntime(partition, role, blockSize);', ''),
    ),
    rule(
      'reload-all-or-nothing',
      'Whatever fails, the old generation serves on, and nothing of the new one is left.',
      reload('that fails anywhere changes nothing and leaves nothing behind'),
      fault('src/host/plugin-host.ts', 'await host.dispose();', ''),
    ),
    rule(
      'reload-all-errors',
      'All problems are told, each at its place.',
      router('take everything or nothing, and count and tell what is wrong'),
      fault(
        ROUTER_SOURCE,
        '? thrown.problems.map((problem) => thrown.source.render(problem))',
        '? thrown.problems.slice(0, 1).map((problem) => thrown.source.render(problem))',
      ),
    ),
    rule(
      'reload-counted',
      'A failure is counted.',
      router('take everything or nothing, and count and tell what is wrong'),
      fault(ROUTER_SOURCE, "metrics.count('pointsman_config_reload_failed_total');", ''),
    ),
    rule(
      'reload-index',
      'A policy that needs the prefix index is refused, at its role, where the router was started without one.',
      live(
        'a configuration that changes > is refused where a policy needs the index that nothing needed at the start',
      ),
      fault('src/cli/router-reload.ts', "path: ['worker_selection', role],", "path: ['worker_selection'],"),
    ),
    rule(
      'reload-collapse',
      'Reloads that are asked for during a reload become one more.',
      router('asked for while one is under way become one more, whoever asks'),
      fault(ROUTER_SOURCE, 'if (this.#queued !== null) {', 'if (this.#queued === undefined) {'),
    ),
    rule(
      'reload-same-decision',
      'A decision under way ends with the generation it began with.',
      TAKEN_BACK,
      fault(
        HOST_SOURCE,
        'queueMicrotask(() => this.#takeBack(hold, guard, reason));',
        'this.#takeBack(hold, guard, reason);',
      ),
    ),
    rule(
      'reload-bookings',
      'A booking keeps the generation that made it: an older one is disposed when its last booking is released.',
      generations(
        'an old one is disposed when its last booking is released after the probation, in a later turn',
      ),
      fault(
        GENERATIONS_SOURCE,
        "if (other.value.hold.count === 0 && other.state === 'draining') this.#dispose(other);",
        "if (other.state === 'draining') this.#dispose(other);",
      ),
    ),
    rule(
      'reload-drain-limit',
      'Or after 60 s.',
      generations('an old one without bookings stays for the probation, which ends after 60 s'),
      fault(GENERATIONS_SOURCE, 'DRAIN_LIMIT_MS = 60_000', 'DRAIN_LIMIT_MS = 70_000'),
    ),
    rule(
      'reload-threads',
      'A booking that waits for a thread is answered by the thread of its own version.',
      test(
        'src/host/isolation/reload.test.ts',
        'a reload > gives a booking that waits its own version, and ends the older threads with their last booking',
      ),
      fault('src/host/role-runtime.ts', 'hold: ports.hold ?? null,', 'hold: null,'),
    ),
    rule(
      'reload-classifications',
      'A classification that waits is answered by the classifier that was asked.',
      test(
        'src/host/reloadable-classifiers.test.ts',
        'a classification that waits across a reload > is answered by the classifier that was asked, which hears the end and goes after it',
      ),
      fault('src/host/classifier-stage.ts', 'this.#options.hold?.retain();', ''),
    ),
    rule(
      'reload-disposed-once',
      'A shared instance is disposed with its generation, once.',
      reload('disposes a shared instance with its generation, once'),
      fault('src/host/resolved-host.ts', '() => disposeShared(created),', '() => created,'),
    ),
    rule(
      'reload-two',
      'Two generations are alive at most: a third reload waits for the first to drain, or for its 60 s.',
      generations('a third waits for the first to drain, or for its 60 s'),
      fault(GENERATIONS_SOURCE, 'while (this.#other !== null) {', 'while (this.#other === undefined) {'),
    ),
    rule(
      'reload-stop',
      'A router that stops disposes all of them.',
      generations('closing disposes all that are alive, once'),
      fault(GENERATIONS_SOURCE, 'Promise.all([this.#serving.dispose(), ', 'Promise.all(['),
    ),
    rule(
      'reload-probation',
      'A plugin that trips its breaker within 60 s and 200 calls of its reload takes the reload back.',
      TAKEN_BACK,
      fault(HOST_SOURCE, '|| !this.#generations.rollBack()) return;', ') return;'),
    ),
    rule(
      'reload-probation-calls',
      'After 200 calls a trip is the breaker’s business alone.',
      probation('is over after 200 calls: a trip is then the breaker’s business alone'),
      fault('src/host/probation.ts', 'PROBATION_CALLS = 200', 'PROBATION_CALLS = 300'),
    ),
    rule(
      'reload-probation-time',
      'So it is after 60 s.',
      probation('is over after 60 s: a trip is then the breaker’s business alone'),
      fault(
        GENERATIONS_SOURCE,
        'cancel: this.#clock.schedule(DRAIN_LIMIT_MS,',
        'cancel: this.#clock.schedule(2 * DRAIN_LIMIT_MS,',
      ),
    ),
    rule(
      'reload-probation-touched',
      'Only plugins that the reload touched are on probation.',
      probation('is none of a plugin that the reload did not touch'),
      fault(
        'src/host/probation.ts',
        'return !isDeepStrictEqual(settings(serving), settings(before));',
        'return true;',
      ),
    ),
    rule(
      'reload-back-once',
      'A reload is taken back once.',
      generations('going back happens once, keeps the old one, and drains the newer one'),
      fault(
        GENERATIONS_SOURCE,
        "this.#leave(failed, failedNumber, 'draining');",
        "this.#leave(failed, failedNumber, 'standby');",
      ),
    ),
    rule(
      'reload-back-rest',
      'What else was reloaded stays.',
      router('that are rolled back give the policies back and keep what else was reloaded'),
      fault(
        ROUTER_SOURCE,
        'this.#config = { ...this.#config, ...policiesOf(policies) };',
        'this.#config = policies;',
      ),
    ),
    rule(
      'reload-refused',
      'A version that was taken back is not tried again until it changes.',
      TAKEN_BACK,
      fault(HOST_SOURCE, 'if (refused.length > 0) throw new ConfigError(source, refused);', ''),
    ),
    rule(
      'reload-refused-settings',
      'Nor are settings that made an unchanged plugin fail.',
      probation('takes back settings that make a plugin fail, and tries other ones'),
      fault(
        'src/host/refused-versions.ts',
        'if (settings !== null && isDeepStrictEqual(',
        'if (settings !== null && Object.is(',
      ),
    ),
    rule(
      'reload-live',
      'Under load a changed policy, or a file it imports, takes effect and no request fails.',
      live(
        'files that change under 50 concurrent clients > a policy and a file it imports take effect, and no request fails',
      ),
      fault('src/cli/file-watch.ts', 'this.#options.changed();', ''),
    ),
  ],
};
