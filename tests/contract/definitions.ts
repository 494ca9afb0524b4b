import { type ContractSection, fault, rule, test } from './rule.ts';

const PLUGIN_LOADER = 'src/host/plugin-loader.test.ts';
const DEFINE = 'src/plugin/define.test.ts';

/** Definitions. */
export const DEFINITIONS_RULES: ContractSection = {
  title: 'Definitions',
  rules: [
    rule(
      'type-letters',
      'A type consists of letters, digits, `_`, `.` and `-`, one at least; anything else ends the start.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > takes a reserved, an empty and an illegal type: the listing says so',
      ),
      fault(
        'src/host/definition-check.ts',
        'const TYPE_PATTERN = /^[A-Za-z0-9_.-]+$/;',
        'const TYPE_PATTERN = /^/;',
      ),
    ),
    rule(
      'type-reserved',
      'No policy may be named `default`.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > takes a reserved, an empty and an illegal type: the listing says so',
      ),
      fault('src/host/definition-check.ts', "if (type === 'default') return", "if (type === '') return"),
    ),
    rule(
      'type-unique',
      'A type is registered once over everything loaded; a second one ends the start and names both places.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > takes a type that another has: the listing says so',
      ),
      fault(
        'src/host/catalog.ts',
        'if (!taken) return null;',
        "if (taken?.origin.version !== 'builtin') return null;",
      ),
    ),
    rule(
      'type-unique-over-kinds',
      'A type is unique over all kinds of policies, built-in ones included.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > takes the type of a built-in, of whatever kind: the listing says so',
      ),
      fault(
        'src/host/catalog.ts',
        'this.selections.get(type) ?? this.hints.get(type)',
        'this.hints.get(type)',
      ),
    ),
    rule(
      'definition-frozen',
      'A definition is a plain object, frozen with its brand.',
      test(DEFINE, 'a definition > is a plain frozen object with its kind and the version of the contract'),
      fault('src/plugin/worker-selection.ts', 'return Object.freeze({', 'return ({'),
    ),
    rule(
      'definition-brand',
      'A definition carries its kind and the version of the contract under the text key `~pointsman`, which a second copy of the package shares.',
      test(DEFINE, 'a definition > looks the same from another copy of the package'),
      fault(
        'src/plugin/hint-policy.ts',
        "'~pointsman': Object.freeze({ kind",
        "[Symbol('pointsman')]: Object.freeze({ kind",
      ),
    ),
    rule(
      'definition-version',
      'The host refuses a definition of another major version of the contract and names both versions.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > was written for another contract: the listing says so',
      ),
      fault(
        'src/host/definition-check.ts',
        'if (major(version) !== major(PLUGIN_API_VERSION)) {',
        'if (version === PLUGIN_API_VERSION) {',
      ),
    ),
    rule(
      'definition-exports',
      'Every definition that a module exports counts, under whatever name.',
      test(PLUGIN_LOADER, 'loading > takes an object exported under two names, or by two listed files, once'),
      fault(
        'src/host/plugin-exports.ts',
        'const named = Object.entries(exports);',
        "const named = Object.entries(exports).filter(([name]) => name === 'again');",
      ),
    ),
    rule(
      'definition-once',
      'An object that is exported twice, by one module or by two, counts once.',
      test(PLUGIN_LOADER, 'loading > takes an object exported under two names, or by two listed files, once'),
      fault('src/host/plugin-exports.ts', 'if (this.#seen.has(value)) return null;', ''),
    ),
    rule(
      'error-copies',
      'An error class recognises the errors of another copy of the package.',
      test(DEFINE, 'an error > of another copy of the package is one of ours, and the reverse'),
      fault('src/plugin/errors.ts', "Symbol.for('pointsman.error')", "Symbol('pointsman.error')"),
    ),
    rule(
      'actions-form',
      '`actions` is a list of `type@version`; anything else ends the start.',
      test(
        PLUGIN_LOADER,
        'a plugin that cannot be used > declares actions that are none: the listing says so',
      ),
      fault(
        'src/host/definition-check.ts',
        'const ACTION_PATTERN = /^[^@\\s]+@[^@\\s]+$/;',
        'const ACTION_PATTERN = /^/;',
      ),
    ),
    rule(
      'scope-default',
      'A definition that names no scope has an instance per partition and role.',
      test(
        DEFINE,
        'a definition > has a scope of its partition, no inputs and no default hosts where it says nothing',
      ),
      fault('src/plugin/hint-policy.ts', "scope: 'partition' as Scope,", "scope: 'shared' as Scope,"),
    ),
  ],
};
