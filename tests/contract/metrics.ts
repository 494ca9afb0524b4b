import { type ContractSection, fault, rule, test } from './rule.ts';

const METERS = 'src/host/plugin-meters.test.ts';
const METERS_SOURCE = 'src/host/plugin-meters.ts';

/** Numbers of plugins. */
export const METRICS_RULES: ContractSection = {
  title: 'Numbers of plugins',
  rules: [
    rule(
      'metrics-shown',
      '`metrics` of `create` counts and sets gauges that stand on `/metrics` by plugin, name and label.',
      test(METERS, 'of several partitions add up; gauges end with their policies, counts stay'),
      fault(
        'src/host/plugin-meters.ts',
        "this.#registry.count('pointsman_plugin_counts_total', { plugin: this.#plugin,",
        "this.#registry.count('pointsman_plugin_counts_total', { plugin: '',",
      ),
    ),
    rule(
      'metrics-sum',
      'Numbers of several partitions and roles add up.',
      test(METERS, 'of several partitions add up; gauges end with their policies, counts stay'),
      fault(
        METERS_SOURCE,
        'for (const meter of meters) yield* meter.samples();',
        'for (const meter of [...meters].slice(0, 1)) yield* meter.samples();',
      ),
    ),
    rule(
      'metrics-end',
      'A gauge ends with its policy, a count stays.',
      test(METERS, 'of several partitions add up; gauges end with their policies, counts stay'),
      fault(
        METERS_SOURCE,
        'metersOfRegistry.get(this.#registry)?.delete(this);\n    this.#gauges.clear();',
        '',
      ),
    ),
    rule(
      'metrics-classifier',
      'Request classifiers have them as well.',
      test(METERS, 'of a request classifier are shown as well, until it is disposed'),
      fault('src/host/classifiers.ts', 'metrics: meter.metrics,', ''),
    ),
    rule(
      'metrics-names',
      'A name that is no lower-case word goes under `other`; the log says so once.',
      test(METERS, 'what is out of bounds > in names goes under other, and is said once'),
      fault('src/host/meter-input.ts', 'const NAME = /^[a-z][a-z0-9_]{0,63}$/;', 'const NAME = /^/;'),
    ),
    rule(
      'metrics-most',
      'A plugin has 32 names and 32 labels per name; what is more goes under `other`.',
      test(
        METERS,
        'what is out of bounds > in numbers of names and labels goes under other, counts and gauges together',
      ),
      fault('src/host/meter-input.ts', 'if (labels.size < MAX_LABELS) {', 'if (labels.size <= MAX_LABELS) {'),
    ),
    rule(
      'metrics-values',
      'What is no number is left out, and nothing is thrown.',
      test(METERS, 'what is out of bounds > in labels goes under other, and in values is left out'),
      fault('src/host/meter-input.ts', 'if (!Number.isFinite(value)) {', 'if (value === undefined) {'),
    ),
  ],
};
