import { type ContractSection, fault, rule, test } from './rule.ts';

const LOADER = 'src/host/plugin-loader.test.ts';
const cannot = (what: string) => test(LOADER, `a plugin that cannot be used > ${what}: the listing says so`);
const loads = (what: string) => test(LOADER, `loading > ${what}`);

/** Modules and packages. */
export const LOADING_RULES: ContractSection = {
  title: 'Loading',
  rules: [
    rule(
      'load-stock-program',
      'The stock program loads a plugin that stands in a bare folder: nothing is built, linked or installed beside it.',
      {
        file: 'tests/hint-policies.test.ts',
        name: 'a hint policy in a bare folder > runs without a build, its envelope arrives byte for byte, and a throwing neighbour loses only its own',
        by: 'process',
      },
      fault(
        'src/host/plugin-loader.ts',
        "{ ...this.#modules, ...extra, 'pointsman/plugin': contract },",
        "{ ...this.#modules, ...extra, 'pointsman/plugins': contract },",
      ),
    ),
    rule(
      'load-files',
      '`.ts`, `.js` and `.mjs` are loaded alike, with what they import and with top-level await, without a `package.json`.',
      loads('takes .ts, .js and .mjs files, what they import, enums, and top-level await'),
      fault(
        'src/host/plugin-transpiler.ts',
        "Reflect.apply(nodeRequire(join(folder, 'babel.cjs')), undefined, args),",
        "({ code: Reflect.get(Object(args[0]), 'source') }),",
      ),
    ),
    rule(
      'load-package',
      'A package is looked up from the folder of the configuration and above.',
      loads('takes a package that lies above the configuration'),
      fault(
        'src/host/plugin-loader.ts',
        "if (url?.startsWith('file:')) return",
        "if (url === 'file:') return",
      ),
    ),
    rule(
      'load-contract',
      'A plugin gets the program’s own `pointsman/plugin`, so that classes are the same on both sides.',
      loads('hands over its own copy of the contract, so that classes are the same on both sides'),
      fault(
        'src/host/plugin-loader.ts',
        "'pointsman/plugin': contract },",
        "'pointsman/plugin': { ...contract, PointsmanError: class extends contract.PointsmanError {} } },",
      ),
    ),
    rule(
      'load-test-kit',
      'A plugin gets the program’s own `pointsman/testing`.',
      test('src/cli/run.test.ts', 'plugins get the contract, the test kit and zod from the program'),
      fault('src/cli/plugin-modules.ts', "'pointsman/testing': await", "'pointsman/tests': await"),
    ),
    rule(
      'load-zod',
      'A folder without zod gets the program’s; one that has zod keeps its own.',
      loads('leaves the zod of a folder alone and brings its own where there is none'),
      fault('src/host/plugin-loader.ts', 'const hasZod =', 'const hasZod = false &&'),
    ),
    rule(
      'load-nothing',
      'A module that exports no definition and no `register` ends the start.',
      cannot('exports nothing of use'),
      fault('src/host/plugin-exports.ts', 'if (found === 0) {', 'if (found < 0) {'),
    ),
    rule(
      'load-kind',
      'A definition of a kind that this program does not know ends the start and names those it knows.',
      cannot('is of a kind that does not exist here'),
      fault('src/host/definition-check.ts', 'if (!KINDS.includes(kind)) {', "if (kind === '') {"),
    ),
    rule(
      'load-reason',
      'What keeps a module from loading is told with its file and line.',
      cannot('has a syntax error'),
      fault(
        'src/host/plugin-loader.ts',
        'if (place !== undefined) return `${first} at ${this.#shorten(place)}`;',
        'if (place !== undefined) return first;',
      ),
    ),
    rule(
      'load-limit',
      'Loading a module, its `register` and each reading of parameters have 30 s; then the start ends with an error.',
      test(
        LOADER,
        'a plugin that waits for something that never comes > at its top level ends the start with an error',
      ),
      fault('src/host/time-limit.ts', 'LOAD_LIMIT_MS = 30_000', 'LOAD_LIMIT_MS = 20_000'),
    ),
  ],
};

/** `register(registry)`. */
export const REGISTER_RULES: ContractSection = {
  title: 'Registration',
  rules: [
    rule(
      'register-export',
      'A module may export `register(registry)` instead of definitions.',
      loads('takes what register registers'),
      fault('src/host/plugin-exports.ts', "name === 'register' &&", "name === 'registerAll' &&"),
    ),
    rule(
      'register-parameters',
      'A provider is given the raw parameters; what it throws says what is wrong with them.',
      loads('takes what register registers'),
      fault('src/host/catalog-registry.ts', 'return wrong(errorText(thrown));', "return wrong('no');"),
    ),
    rule(
      'register-hosts',
      '`registerHintPolicy` takes default hosts.',
      loads('takes what register registers'),
      fault(
        'src/host/catalog-registry.ts',
        'entry(type, origin, hosts, provider,',
        'entry(type, origin, [], provider,',
      ),
    ),
    rule(
      'register-inputs',
      'What a provider returns declares inputs, actions and commitments as a definition does.',
      loads('takes what register registers'),
      fault(
        'src/host/catalog-registry.ts',
        'return { inputs, actions: actions',
        'return { inputs: [], actions: actions',
      ),
    ),
    rule(
      'register-types',
      'A registered type is held to the rules for types.',
      cannot('registers a reserved type'),
      fault('src/host/catalog-registry.ts', 'checkType(type, label) ??', 'null ??'),
    ),
    rule(
      'register-throws',
      'A `register` that throws ends the start with its text.',
      cannot('has a register that throws'),
      fault(
        'src/host/plugin-exports.ts',
        'register of ${origin.name} failed: ${errorText(thrown)}',
        'register of ${origin.name} failed',
      ),
    ),
    rule(
      'register-embedder',
      'A program that embeds the router is given the same registry.',
      test(
        'src/cli/embedded-router.test.ts',
        'a program that embeds a router > registers policies of its own, which the configuration uses by their types',
      ),
      fault('src/host/listed-plugins.ts', 'if (register !== undefined) {', 'if (register === null) {'),
    ),
  ],
};
