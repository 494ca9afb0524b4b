import { type ContractSection, fault, rule, test, types } from './rule.ts';

const PARAMETERS = 'src/host/parameters.test.ts';
const CREATION = 'src/host/creation.test.ts';
const ROLE_RESOLUTION = 'src/host/role-resolution.test.ts';
const SCHEMA_SELECTION = 'src/config/schema-selection.test.ts';

/** Parameters. */
export const PARAMETERS_RULES: ContractSection = {
  title: 'Parameters',
  rules: [
    rule(
      'parameters-standard',
      '`parameters` is any Standard Schema; nothing but its `~standard` member is used, and its issues may give a path in either form.',
      test(PARAMETERS, 'issues of other libraries > whose path elements are objects are followed'),
      fault('src/host/parameters.ts', "typeof step === 'object' ? step.key : step", 'step'),
    ),
    rule(
      'parameters-output',
      'A policy is created with what its schema puts out, transforms and defaults applied.',
      test(PARAMETERS, 'parsing parameters > gives the output of the schema, transforms included'),
      fault(
        'src/host/parameters.ts',
        'if (!result.issues) return { value: result.value, faults: null };',
        'if (!result.issues) return { value: raw, faults: null };',
      ),
    ),
    rule(
      'parameters-type',
      'In `create` the parameters have the output type of the schema.',
      types('parameters > arrive as the output of the schema'),
      fault(
        'src/plugin/schema.ts',
        "NonNullable<S['~standard']['types']>['output'];",
        "NonNullable<S['~standard']['types']>['input'];",
      ),
    ),
    rule(
      'parameters-asynchronous',
      'A schema may be asynchronous.',
      test(PARAMETERS, 'parsing parameters > waits for asynchronous schemas'),
      fault(
        'src/host/parameters.ts',
        "const result = await schema['~standard'].validate(raw);",
        "const result = schema['~standard'].validate(raw);",
      ),
    ),
    rule(
      'parameters-once',
      'The parameters of a configured instance are parsed once, however many roles use it.',
      test(CREATION, 'the schema of an instance > is asked once, however many roles use it'),
      fault(
        'src/host/role-resolution.ts',
        'entry ? await this.#preparations.of(entry, instance.parameters) : null,',
        'entry ? (await entry.prepare(instance.parameters), await this.#preparations.of(entry, instance.parameters)) : null,',
      ),
    ),
    rule(
      'parameters-unselected',
      'Instances that no role selects are parsed too; what is wrong with them is a warning.',
      test(
        ROLE_RESOLUTION,
        'a refusal names file, line, column and what would be right > only warns of instances that no role uses',
      ),
      fault('src/host/role-resolution.ts', 'this.#reportUnusedInstances();', ''),
    ),
    rule(
      'parameters-empty',
      'Parameters that are left out or null are `{}`.',
      test(PARAMETERS, 'parsing parameters > takes absent and null as an empty mapping and applies defaults'),
      fault('src/host/parameters.ts', 'const raw = given ?? {};', 'const raw = given;'),
    ),
    rule(
      'parameters-none',
      'A plugin without a schema takes no parameters.',
      test(PARAMETERS, 'parsing parameters > without a schema takes none'),
      fault(
        'src/host/parameters.ts',
        'return faults.length > 0 ? { faults } : { value: {}, faults: null };',
        'return { value: {}, faults: null };',
      ),
    ),
    rule(
      'parameters-closed',
      'Every built-in policy refuses parameters that it does not know.',
      test(CREATION, 'every built-in policy > refuses a parameter that it does not know'),
      fault('src/policies/kv-fetch/policy.ts', 'parameters: z.strictObject({', 'parameters: z.object({'),
    ),
    rule(
      'parameters-nearest',
      'An unknown key is told with the nearest valid one, or with all, where the schema can list its keys.',
      test(PARAMETERS, 'names the nearest key at every depth, and all keys where none is near'),
      fault('src/host/parameters.ts', '${didYouMean(key, known) || list}', ''),
    ),
    rule(
      'parameters-position',
      'What is wrong with a parameter is told with its key and its line and column in the YAML.',
      test(
        ROLE_RESOLUTION,
        'a refusal names file, line, column and what would be right > wrong, unknown and missing parameters, together',
      ),
      fault(
        'src/host/problem-list.ts',
        "path: [...path, 'parameters', ...fault.path],",
        "path: [...path, 'parameters'],",
      ),
    ),
    rule(
      'parameters-u64',
      'Integers beyond 2^53 reach the schema exactly, as `bigint`.',
      test(SCHEMA_SELECTION, 'parameters of plugins stay raw, with integers beyond 2^53 exact'),
      fault('src/config/yaml-document.ts', 'intAsBigInt: true,', 'intAsBigInt: false,'),
    ),
  ],
};
