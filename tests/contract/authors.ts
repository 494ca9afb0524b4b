import { type ContractSection, fault, rule, test } from './rule.ts';

const CLI = 'src/cli/run.test.ts';
const CHECK_SOURCE = 'src/cli/check.ts';
const SCAFFOLDS = 'tests/scaffolds.test.ts';
const kit = (file: string, name: string) => test(`src/testing/${file}.test.ts`, name);
const selectionCheck = (what: string) =>
  kit('selection-properties', `checkWorkerSelection > tells of a policy that ${what}`);
const built = (file: string, name: string) => ({ file, name, by: 'process' }) as const;

/** What authors are given. */
export const AUTHOR_RULES: ContractSection = {
  title: 'For authors',
  rules: [
    rule(
      'author-version',
      'README, types and changelog say that the contract is experimental, and that a breaking change raises `apiVersion` and stands in the changelog.',
      test(
        'tests/documentation.test.ts',
        'the contract says that it is experimental while its version begins with 0',
      ),
      fault('src/plugin/define.ts', "PLUGIN_API_VERSION = '0.1'", "PLUGIN_API_VERSION = '1.0'"),
    ),
    rule(
      'author-two-copies',
      'What is made with one copy of the package has the types of another.',
      built('tests/plugin-api.test.ts', 'what is made with one copy has the types of the other'),
      fault(
        'src/plugin/errors.ts',
        'export class PointsmanError extends Error {',
        'export class PointsmanError extends Error {\n  readonly #own = true;\n  get own(): boolean {\n    return this.#own;\n  }',
      ),
    ),
    rule(
      'author-two-copies-run',
      'It runs under another.',
      built('tests/plugin-api.test.ts', 'what is made with one copy runs under the other'),
      fault(
        'src/plugin/refusals.ts',
        "Symbol.for('pointsman.refusal.capacity-exhausted')",
        "Symbol('pointsman.refusal.capacity-exhausted')",
      ),
    ),
    rule(
      'author-new',
      '`pointsman plugins new <role> <name>` writes a folder with code, test and README.',
      test('src/cli/scaffold.test.ts', 'a new hint-policy > has files of its name, and its name in them'),
      fault('src/cli/scaffold.ts', 'text: fill(text, name, ', 'text: fill(text, TEMPLATE_NAME, '),
    ),
    rule(
      'author-new-classifier',
      'It does so for each role.',
      test(
        'src/cli/scaffold.test.ts',
        'a new request-classifier > has files of its name, and its name in them',
      ),
      fault(
        'src/cli/scaffold.ts',
        'if (!SCAFFOLD_ROLES.includes(role)) {',
        "if (role === 'request-classifier') {",
      ),
    ),
    rule(
      'author-new-action',
      'With `--action TYPE@VERSION` it writes a hint policy that sends this action.',
      test(
        'src/cli/scaffold.test.ts',
        'a new hint policy for an action > sends any other, whatever it and the policy are called',
      ),
      fault(
        'src/cli/scaffold.ts',
        "return placeholder.includes('@') ? action : type;",
        'return placeholder;',
      ),
    ),
    rule(
      'author-new-keeps',
      'It overwrites nothing.',
      test('src/cli/scaffold.test.ts', 'a new hint-policy > overwrites nothing, and then writes nothing'),
      fault('src/cli/scaffold.ts', 'if (taken.length > 0) {', 'if (taken.length > 99) {'),
    ),
    rule(
      'author-new-works',
      'What it writes passes `check`.',
      built(SCAFFOLDS, 'plugins new hint-policy > has a configuration that passes check'),
      fault('src/cli/scaffold.ts', 'text: fill(text, name, ', 'text: fill(text, TEMPLATE_NAME, '),
    ),
    rule(
      'author-new-says',
      'It says which files it wrote, the types for an editor among them, and what comes next.',
      built(SCAFFOLDS, 'plugins new hint-policy > writes a plugin and says what comes next'),
      fault(
        'src/cli/plugins-new.ts',
        'const types = writeAuthorTypes(folder);',
        'const types = { ...writeAuthorTypes(folder), written: [] };',
      ),
    ),
    rule(
      'author-test',
      '`pointsman plugins test` runs the tests of a folder in which nothing is installed; a file that cannot be loaded is one that failed.',
      built(SCAFFOLDS, 'plugins test > counts a file that cannot be loaded as a failure and runs the others'),
      fault('src/cli/plugin-test-worker.ts', 'throw thrown;', 'return undefined;'),
    ),
    rule(
      'author-types',
      '`pointsman plugins types` gives an editor the types of the contract, and nothing of the program.',
      built(SCAFFOLDS, 'plugins types > copies what the contract needs and nothing of the program'),
      fault(
        'src/cli/author-types.ts',
        "write(join(place, 'types', relative(root, file)), read(file));",
        'write(join(place, relative(root, file)), read(file));',
      ),
    ),
    rule(
      'author-check',
      '`pointsman check` finds what a start would refuse, with the same texts and positions, and exits 2.',
      test(CLI, 'check finds what only the plugin host can see, and writes it as JSON'),
      fault(
        CHECK_SOURCE,
        'problems: [...early, ...thrown.problems], roles: null,',
        'problems: early, roles: null,',
      ),
    ),
    rule(
      'author-check-roles',
      'It shows what each role resolved to.',
      test(CLI, 'check shows what each role resolves to and exits 0, warnings included'),
      fault(CHECK_SOURCE, 'policyName(role),', 'role.role,'),
    ),
    rule(
      'author-check-prepared',
      'It shows what is prepared for each role because its policies ask for it, and what they ask for in vain.',
      test(CLI, 'check shows what is prepared for each role because its policies ask for it'),
      fault('src/host/role-provisions.ts', "(kept ? 'yes' : 'disabled')", "(kept ? 'yes' : 'no')"),
    ),
    rule(
      'author-check-disposes',
      'It calls every `create`, and leaves nothing of it behind.',
      test(CLI, 'check creates every policy and leaves nothing of it behind'),
      fault(CHECK_SOURCE, 'await host.dispose();', ''),
    ),
    rule(
      'author-check-files',
      'It reads a policy file beside a configuration or alone, and says in which a problem stands.',
      test(
        CLI,
        'check reads a policy file beside a configuration or alone, and says which file a problem stands in',
      ),
      fault(CHECK_SOURCE, 'const file = given ?? policyFile;', 'const file = given;'),
    ),
    rule(
      'author-test-hint',
      '`testHintPolicy` runs a hint policy through the router’s own stage: what would be sent, or why it would be dropped.',
      kit('hint-trial', 'testHintPolicy > says why an output would be dropped'),
      fault('src/testing/hint-trial.ts', 'dropped: isOfTrial(reason) ? reason : null,', 'dropped: null,'),
    ),
    rule(
      'author-test-selection',
      '`testWorkerSelection` runs a worker-selection policy through the router’s own pipeline.',
      kit('selection-trial', 'decides among candidates written by hand'),
      fault(
        'src/testing/trial-table.ts',
        'table.deviceBlocks[row] = cache.deviceBlocks ?? 0;',
        'table.deviceBlocks[row] = 0;',
      ),
    ),
    rule(
      'author-test-classifier',
      '`testClassifier` puts a classifier under the router’s own stage.',
      kit('classifier-trial', 'testClassifier > answers at once, later, with a refusal or with a failure'),
      fault(
        'src/testing/classifier-trial.ts',
        "return REFUSALS.has(this.#outcome.error.code) ? 'refused' : 'failed';",
        "return 'failed';",
      ),
    ),
    rule(
      'author-test-parameters',
      'They refuse parameters as a start would.',
      kit('hint-trial', 'testHintPolicy > refuses parameters as a start would'),
      fault(
        'src/host/solo-runtime.ts',
        'if (preparation.faults === null) return preparation.prepared;',
        'if (preparation) return { ...found, create: () => ({ buildHints: () => [] }) } as never;',
      ),
    ),
    rule(
      'author-replay',
      '`replayTrial` runs policies in front of simulated engines, which carry their actions out.',
      kit(
        'trace-trial',
        'replayTrial > runs a hint policy in front of simulated engines, which carry its actions out',
      ),
      fault('src/testing/trace-trial.ts', 'hints: trial.hints,', 'hints: [],'),
    ),
    rule(
      'author-check-selection-valid',
      '`checkWorkerSelection` tells of costs that are not finite and picks that are none.',
      selectionCheck('divides by what can be zero'),
      fault(
        'src/testing/selection-properties.ts',
        "if ('code' in decisions) {",
        "if ('code' in decisions && trial < 0) {",
      ),
    ),
    rule(
      'author-check-selection-permutation',
      'It tells of a policy that costs rows instead of workers.',
      selectionCheck('costs a row instead of a worker'),
      fault(
        'src/testing/selection-properties.ts',
        "tell('permutation-stable', moved(decisions, candidates, other, shuffled));",
        'void [other, moved];',
      ),
    ),
    rule(
      'author-check-selection-starvation',
      'It tells of one that starves workers.',
      selectionCheck('always takes the first'),
      fault(
        'src/testing/selection-properties.ts',
        "if (properties.includes('no-starvation')) {",
        'if (properties.length === 0) {',
      ),
    ),
    rule(
      'author-check-selection-repeat',
      'It tells of one that throws dice of its own.',
      selectionCheck('throws dice of its own'),
      fault(
        'src/testing/selection-properties.ts',
        'if (exactJsonStringify(again) !== exactJsonStringify(decisions)) {',
        'if (again === decisions) {',
      ),
    ),
    rule(
      'author-check-budget',
      'It tells of one that takes longer than a decision may.',
      kit(
        'selection-properties',
        'checkWorkerSelection > tells of a policy that takes longer than a decision may',
      ),
      fault(
        'src/testing/selection-properties.ts',
        "if (properties.includes('within-budget')) tell(",
        'if (properties.length === 0) tell(',
      ),
    ),
    rule(
      'author-check-hint',
      '`checkHintPolicy` tells of a hint policy that counts on what may be missing.',
      kit('hint-properties', 'checkHintPolicy > tells of a policy that counts on a session'),
      fault('src/testing/hint-properties.ts', "tell('valid', invalid(once, booking));", ''),
    ),
    rule(
      'author-check-classifier',
      '`checkClassifier` tells of a classifier that lets requests wait for ever.',
      kit('classifier-properties', "checkClassifier > finds what is wrong with 'starving'"),
      fault(
        'src/testing/classifier-properties.ts',
        'faults.push(...faultsOf(entry, patienceMs));',
        'void entry;',
      ),
    ),
    rule(
      'author-check-classifier-end',
      'It tells of one whose requests have no one end.',
      kit('classifier-properties', "checkClassifier > finds what is wrong with 'deaf'"),
      fault(
        'src/testing/classifier-properties.ts',
        'faults.push(...terminalFaults(trial, sent));',
        'void terminalFaults;',
      ),
    ),
    rule(
      'author-compare',
      '`pointsman replay --compare` shows what a policy buys; a policy that fails never passes for a measured one.',
      test(
        'tests/replay-cli.test.ts',
        'pointsman replay > never passes a failing policy for a measured one: the table counts it and stderr says why',
      ),
      fault(
        'src/cli/replay-faults.ts',
        "if (name === 'pointsman_selection_fallbacks_total') add(",
        "if (name === '') add(",
      ),
    ),
  ],
};
