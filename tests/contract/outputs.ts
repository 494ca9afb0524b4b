import { type ContractSection, fault, rule, test, types } from './rule.ts';

const STAGE = 'src/host/hint-stage.test.ts';
const OUTPUT_SOURCE = 'src/host/hint-output.ts';
const PAYLOAD = 'src/host/hint-payload.test.ts';
const PAYLOAD_SOURCE = 'src/host/hint-payload.ts';
const misbehaving = (how: string) =>
  test(STAGE, `a policy that misbehaves loses its own actions only > ${how}`);

/** What it returns. */
export const OUTPUT_RULES: ContractSection = {
  title: 'Hint policies: the output',
  rules: [
    rule(
      'hint-output-form',
      'An output is a list of `{ type, version, payload }`; whatever else stands on an action, an id of its own included, is left out.',
      test(
        'src/host/hint-output.test.ts',
        'an output > is taken as a copy without anything the contract does not name',
      ),
      fault(
        OUTPUT_SOURCE,
        'return { type, version, payload, bytes: spent.bytes };',
        'return { ...action, type, version, payload, bytes: spent.bytes };',
      ),
    ),
    rule(
      'hint-output-malformed',
      'Anything else is malformed and dropped.',
      misbehaving('when it returns nothing'),
      fault(
        OUTPUT_SOURCE,
        'if (!Array.isArray(output)) throw',
        'if (!Array.isArray(output)) return [];\n    if (!Array.isArray(output)) throw',
      ),
    ),
    rule(
      'hint-output-words',
      'The log says what was returned and what is expected.',
      test(
        'src/host/hint-output.test.ts',
        'what is wrong with an output > is said in words: buildHints returned undefined; expected a list of { type, version, payload }',
      ),
      fault(OUTPUT_SOURCE, '; expected a list of { type, version, payload }`;', '`;'),
    ),
    rule(
      'hint-output-promise',
      '`buildHints` is synchronous: a promise is dropped.',
      misbehaving('when it returns a promise'),
      fault(OUTPUT_SOURCE, 'if (isThenable(output)) {', 'if (output === isThenable) {'),
    ),
    rule(
      'hint-output-promise-type',
      'The compiler refuses a promise, and actions of another form.',
      types('hint inputs > do not change that buildHints answers actions at once'),
      fault(
        'src/plugin/hint-policy.ts',
        'buildHints(context: HintContextFor<L, C>): readonly HintAction[];',
        'buildHints(context: HintContextFor<L, C>): readonly HintAction[] | Promise<readonly HintAction[]>;',
      ),
    ),
    rule(
      'hint-payload-json',
      'A payload is a JSON object that may also hold `bigint` and `BigUint64Array`.',
      test(PAYLOAD, 'copying a payload > keeps JSON, bigint and BigUint64Array as they are'),
      fault(PAYLOAD_SOURCE, 'if (value > U64_MAX || value < I64_MIN) throw', 'if (value > I64_MIN) throw'),
    ),
    rule(
      'hint-payload-other',
      'Objects of classes, functions, numbers that are not finite and integers beyond 64 bits are refused.',
      test(PAYLOAD, 'copying a payload > refuses a date'),
      fault(PAYLOAD_SOURCE, "throw new PayloadFault('an object of a class is not JSON');", 'return {};'),
    ),
    rule(
      'hint-payload-copied',
      'A payload is copied when it is returned: what the policy does to it later changes nothing.',
      test(STAGE, 'the envelope > is out of the policy’s hands once it returned'),
      fault(PAYLOAD_SOURCE, 'return budget.keep(value, count);', 'return value;'),
    ),
    rule(
      'hint-payload-depth',
      'It nests 16 levels at most, so that a cycle ends.',
      test(PAYLOAD, 'copying a payload > takes 16 levels and not one more, so a cycle ends too'),
      fault(PAYLOAD_SOURCE, 'if (depth >= MAX_PAYLOAD_DEPTH)', 'if (depth > MAX_PAYLOAD_DEPTH)'),
    ),
    rule(
      'hint-payload-size',
      'It has 1 MiB at most.',
      test(
        PAYLOAD,
        'copying a payload > takes 1 MiB and not more, counted as JSON, and does not walk a sparse list',
      ),
      fault(PAYLOAD_SOURCE, 'MAX_PAYLOAD_BYTES = 1024 * 1024', 'MAX_PAYLOAD_BYTES = 1025 * 1024'),
    ),
  ],
};
