import { type ContractSection, fault, rule, test } from './rule.ts';

const RESOLUTION_SOURCE = 'src/host/role-resolution.ts';
const HINTS_SOURCE = 'src/host/hint-resolution.ts';
const refusal = (what: string) =>
  test(
    'src/host/role-resolution.test.ts',
    `a refusal names file, line, column and what would be right > ${what}`,
  );
const live = (name: string) => ({ file: 'tests/live-policies.test.ts', name, by: 'process' }) as const;

/** What ends a start. */
export const START_RULES: ContractSection = {
  title: 'Errors of a start',
  rules: [
    rule(
      'start-unknown-type',
      'An unknown type is told with the known ones and the nearest.',
      refusal('an unknown type with the nearest one'),
      fault(
        RESOLUTION_SOURCE,
        '; ${insteadOf(type, this.#catalog, known, [...known, ...this.#instances.keys()])}',
        '',
      ),
    ),
    rule(
      'start-unknown-hint',
      'So is an unknown hint policy.',
      refusal('an unknown hint'),
      fault(HINTS_SOURCE, '; ${insteadOf(type, this.#catalog, known)}', ''),
    ),
    rule(
      'start-unknown-unloaded',
      'Where a plugin did not load, an unknown type is told with that plugin, as what follows from it.',
      refusal('types that may stand in a plugin that did not load, as what follows from that'),
      fault('src/host/unknown-type.ts', 'if (missing.length > 0)', 'if (missing.length < 0)'),
    ),
    rule(
      'start-unused-plugin',
      'A listed plugin of which nothing is used is a warning.',
      test('src/host/unused-plugins.test.ts', 'a plugin of which nothing is used is a warning'),
      fault('src/host/unused-plugins.ts', 'if (defined.length === 0 ||', 'if (defined.length > 0 ||'),
    ),
    rule(
      'start-wrong-kind',
      'A policy in the place of the other kind is told where it belongs.',
      refusal('a hint policy where a worker-selection policy belongs, and the reverse'),
      fault(
        RESOLUTION_SOURCE,
        'const message = this.#catalog.hints.has(type)',
        'const message = this.#catalog.hints.has(`${type}?`)',
      ),
    ),
    rule(
      'start-hints-off-kv-path',
      'Listed hints off the KV path are one error, at the first such role, that names all.',
      refusal('hints off the KV path, once for all roles'),
      fault(HINTS_SOURCE, "hints for ${listing.join(', ')} run only", 'hints for ${listing[0]} run only'),
    ),
    rule(
      'start-hints-off-kv-path-live',
      'The running program ends with exit code 2 and that text.',
      live(
        'hints off the KV path > listed beside --router-mode round-robin end the start with 2 and the whole text',
      ),
      fault(
        'src/host/hint-resolution.ts',
        'run only on the KV path, but router mode ${mode}',
        'run only on the KV path, but router mode kv',
      ),
    ),
    rule(
      'start-no-sender',
      'A committing policy without a sender is refused, and the built-in one named.',
      refusal('a committing policy that nobody sends for'),
      fault('src/host/commitments.ts', "'list the built-in kv_fetch'", "'list one'"),
    ),
    rule(
      'start-two-senders',
      'So is one with two.',
      refusal('a committing policy that two send for'),
      fault(
        'src/host/commitments.ts',
        'if (senders.length === 1) return;',
        'if (senders.length >= 1) return;',
      ),
    ),
    rule(
      'start-all-problems',
      'All problems are told at once, each with file, line and column.',
      refusal('wrong, unknown and missing parameters, together'),
      fault(
        'src/host/problem-list.ts',
        'for (const fault of faults) {',
        'for (const fault of faults.slice(0, 1)) {',
      ),
    ),
  ],
};
