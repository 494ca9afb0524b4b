import { type ContractSection, fault, rule, test } from './rule.ts';

const RESOLUTION_SOURCE = 'src/host/role-resolution.ts';
const HINTS_SOURCE = 'src/host/hint-resolution.ts';
const HOST = 'src/host/plugin-host.test.ts';
const LIVE = 'tests/live-policies.test.ts';
const SELECTION = 'src/config/schema-selection.test.ts';
const OLDER = 'src/config/older-spellings.test.ts';
const POLICY_FILE = 'src/config/policy-file.test.ts';
const refusal = (what: string) =>
  test(
    'src/host/role-resolution.test.ts',
    `a refusal names file, line, column and what would be right > ${what}`,
  );
const NAMED = test(
  HOST,
  'what a role gets > is what it names: default, an instance, or a type, with the hints it lists',
);
const DEFAULTS = test(
  HOST,
  'what a role gets > includes hints by default host, in registration order, when it lists none',
);
const live = (name: string) => ({ file: LIVE, name, by: 'process' }) as const;

/** How plugins are named in YAML. */
export const GRAMMAR_RULES: ContractSection = {
  title: 'Configuration',
  rules: [
    rule(
      'config-policy-file',
      'A file of policy sections alone is a valid configuration.',
      test(SELECTION, 'a file of policy sections alone is valid'),
      fault('src/config/build.ts', 'return { type, name: name ?? type,', 'return { type, name: type,'),
    ),
    rule(
      'config-kv-path',
      'A role is on the KV path when the router mode is `kv`, the default, whatever its policy.',
      test(
        HOST,
        'what a role gets > needs the index for copy locations even if its policy looks at no cache',
      ),
      fault(
        'src/host/resolved-host.ts',
        "kvPath: mode === 'kv',",
        "kvPath: mode === 'kv' && resolved.selection.type !== 'round-robin',",
      ),
    ),
    rule(
      'config-mode-kv-serves',
      'Mode `kv` without a file serves.',
      live('hints off the KV path > mode kv without a file serves'),
      fault(
        'src/host/builtin-policies.ts',
        "DEFAULT_POLICY = 'dynamo-default-cost-fn'",
        "DEFAULT_POLICY = 'dynamo'",
      ),
    ),
    rule(
      'config-mode-plain-serves',
      'Another mode without a file serves, and no hint policy runs.',
      live(
        'hints off the KV path > without a file the same mode serves, and nothing is listed that could run',
      ),
      fault('src/policies/round-robin/policy.ts', 'turn = (turn + 1) % Number.MAX_SAFE_INTEGER;', ''),
    ),
    rule(
      'config-mode-default-hints',
      'In another mode default hints do not run, which is logged once.',
      live('hints off the KV path > by default do not run in that mode, and do run in mode kv'),
      fault(
        RESOLUTION_SOURCE,
        'dormantHints: onKvPath ? [] : hints.map((hint) => hint.name),',
        'dormantHints: [],',
      ),
    ),
    rule(
      'config-mode-other-type',
      'In another mode, an entry that names another type than the mode’s is an error.',
      refusal('a policy beside a mode that chooses itself'),
      fault(
        RESOLUTION_SOURCE,
        "if (chosen !== null && mode !== 'kv' && chosen.prepared.type !== mode) {",
        'if (chosen === undefined) {',
      ),
    ),
    rule(
      'config-hints-empty',
      '`hints: []` runs none, and is not listing hints.',
      refusal('hints off the KV path, once for all roles'),
      fault(
        HINTS_SOURCE,
        '(entry?.hints?.length ?? 0) + (entry?.appendedHints.length ?? 0) > 0;',
        '(entry?.hints ?? null) !== null;',
      ),
    ),
    rule(
      'config-hints-empty-none',
      'No default hint runs beside `hints: []` either.',
      NAMED,
      fault(HINTS_SOURCE, 'if (entry?.hints) hints', 'if (entry?.hints?.length) hints'),
    ),
    rule(
      'config-hints-default',
      'Without a `hints` key, or with a bare string, the hint policies run whose `defaultHosts` match the type of the role’s policy.',
      DEFAULTS,
      fault(HINTS_SOURCE, 'host.workerSelection === selectionType,', 'host.workerSelection === entry.type,'),
    ),
    rule(
      'config-hints-anywhere',
      "The host `'any-worker-selection'` matches every policy.",
      DEFAULTS,
      fault(HINTS_SOURCE, "host === 'any-worker-selection' ||", "host === 'dynamo-default-cost-fn' ||"),
    ),
    rule(
      'config-hints-nowhere',
      'Elsewhere a hint policy runs only where it is listed.',
      test(HOST, 'what a role gets > is the default policy on the KV path where nothing is said'),
      fault(
        HINTS_SOURCE,
        'return entry.defaultHosts.some(',
        'return entry.defaultHosts.length > 0 || entry.defaultHosts.some(',
      ),
    ),
    rule(
      'config-hints-unknown-host',
      'A default host that names a type which is not loaded is logged.',
      test(HOST, 'what a role gets > is the policy of router mode random, without hints'),
      fault(
        'src/host/startup-notes.ts',
        "log.info('a hint policy names a default host that is not loaded', {",
        "log.debug('a hint policy names a default host that is not loaded', {",
      ),
    ),
    rule(
      'config-bare-default',
      'A bare string is `default`, else an instance, else a type with `{}`.',
      NAMED,
      fault(
        RESOLUTION_SOURCE,
        'return isInstance ? this.#byInstance(name, path) :',
        'return false ? this.#byInstance(name, path) :',
      ),
    ),
    rule(
      'config-bare-both',
      'One that is an instance and a type is an error.',
      refusal('a name that is an instance and a type'),
      fault(
        RESOLUTION_SOURCE,
        'if (isInstance && this.#catalog.selections.has(name)) {',
        'if (isInstance && name === undefined) {',
      ),
    ),
    rule(
      'config-instance',
      '`{ instance: NAME }` uses a named instance; an unknown one is an error.',
      refusal('an unknown instance'),
      fault(RESOLUTION_SOURCE, 'const list = known.length > 0 ?', 'const list = known.length >= 0 ?'),
    ),
    rule(
      'config-hint-name',
      'The name of a hint defaults to its type.',
      test(SELECTION, 'a file of policy sections alone is valid'),
      fault('src/config/build.ts', 'return { type, name: name ?? type,', "return { type, name: name ?? '',"),
    ),
    rule(
      'config-hint-name-unique',
      'It is unique within its role.',
      test(
        'src/config/cross-checks.test.ts',
        'names, ids, urls and ranks that clash are reported where the second stands',
      ),
      fault(
        'src/config/cross-checks.ts',
        '(entry.hints ?? []).map((hint) => hint.name ?? hint.type),',
        '[],',
      ),
    ),
    rule(
      'config-override',
      'An override by flag or environment replaces the type of a role, drops its parameters and keeps its hints.',
      test(
        'src/config/overrides.test.ts',
        'an override replaces the policy of its role, drops its parameters and keeps its hints',
      ),
      fault(
        'src/config/overrides.ts',
        "policy: { kind: 'name', name }, parameters: {} };",
        "policy: { kind: 'name', name } };",
      ),
    ),
    rule(
      'config-override-order',
      'The one for a role wins over the one for all roles, which wins over the file.',
      test(
        'src/config/overrides.test.ts',
        'the override of one role wins over the one for all roles, which wins over the file',
      ),
      fault(
        'src/config/overrides.ts',
        'prefill: overrides.prefillPolicy ?? everyRole,',
        'prefill: everyRole,',
      ),
    ),
    rule(
      'config-override-live',
      'The running program does so, its flags before its variables.',
      live(
        'role policies from outside > replace the type, drop its parameters and keep the hints: flags before variables before the one for all',
      ),
      fault(
        'src/config/overrides.ts',
        "policy: { kind: 'name', name }, parameters: {} };",
        "policy: { kind: 'name', name } };",
      ),
    ),
    rule(
      'config-older',
      '`hint_policies.<role>` becomes the hints of the role, with a warning that prints the YAML rewritten.',
      test(OLDER, 'hint_policies.<role> becomes the hints of the role, whatever its entry looks like'),
      fault('src/config/build.ts', 'const hints = (own ?? older)?.map(', 'const hints = own?.map('),
    ),
    rule(
      'config-older-advice',
      'What it prints means the same and needs no warning.',
      test(OLDER, 'the advice means the same as what was written, and needs no advice itself'),
      fault(
        'src/config/older-spellings.ts',
        '[...(listed ?? []), written.kv_hint_policy]',
        '[...(listed ?? [])]',
      ),
    ),
    rule(
      'config-older-everywhere',
      '`kv_hint_policy` is appended to the hints of every role, its defaults included.',
      test(
        HOST,
        'what a role gets > keeps the hints that run by default before the one of kv_hint_policy, once each',
      ),
      fault(
        HINTS_SOURCE,
        'hints.filter(({ listed, prepared }) => listed || !types.has(prepared.type)), ...appended];',
        'hints, ...appended];',
      ),
    ),
    rule(
      'config-older-twice',
      'Hints given to one role in two spellings are an error that names both places.',
      test(OLDER, 'hints of one role in two spellings are refused with both places'),
      fault(
        'src/config/older-spellings.ts',
        'if (own !== null && older !== null) {',
        'if (own !== null && older === undefined) {',
      ),
    ),
    rule(
      'config-file-mapping',
      'A policy file that is no mapping is refused with the kind that was found, in every router mode.',
      test(POLICY_FILE, 'a policy file that is no mapping, broken, empty or gone is the whole answer'),
      fault('src/config/load.ts', 'a YAML mapping, found ${describeValue(written)}`', 'a YAML mapping`'),
    ),
    rule(
      'config-shapes',
      '`worker_selection`, role entries and `parameters` are mappings (a role entry also a string), `hints` is a list of mappings; anything else is refused at its place.',
      test(SELECTION, 'wrong shapes under worker_selection are positioned'),
      fault(
        'src/config/schema-selection.ts',
        'if (!bare && !isRecord(value)) {',
        "if (!bare && typeof value !== 'object') {",
      ),
    ),
    rule(
      'config-null',
      'What is absent or null counts as absent, and `hints:` without a value warns.',
      test(SELECTION, 'null counts as absent everywhere, and hints without a value warns'),
      fault(
        'src/config/no-effect.ts',
        'if (entry.hints === null && isRecord(',
        'if (entry.hints === undefined && isRecord(',
      ),
    ),
    rule(
      'config-two-files',
      '`worker_selection` in two files is an error that names both places.',
      test(POLICY_FILE, 'a section in both files is refused with both places'),
      fault(
        'src/config/policy-file.ts',
        'is also given at ${placeOf(main.source, [key])};',
        'is also given;',
      ),
    ),
    rule(
      'config-rust-grammar',
      'A policy file of the Rust router runs unmodified; keys that have no use here give one warning each.',
      test(
        POLICY_FILE,
        'a file of the Rust router runs unmodified; what has no use here gives one warning per key, in its own file',
      ),
      fault(
        'src/config/policy-file.ts',
        'if (Object.hasOwn(unusedRouterKeys(), key)) warn(',
        "if (key === '') warn(",
      ),
    ),
    rule(
      'config-seeds',
      'Every configuration example of the designs this contract follows resolves.',
      test('tests/seed-examples.test.ts', 'bare-entry-and-names.yaml resolves as a configuration'),
      fault('src/config/build.ts', 'return { type, name: name ?? type,', 'return { type, name: type,'),
    ),
  ],
};
