// What a plugin reports, brought within bounds: usable names, few of them, numbers that are numbers. The same in process and in a
// thread, so that the caps are the same.
import type { PluginMetrics } from '../plugin/index.ts';

/** Names per created policy. */
export const MAX_NAMES = 32;
/** Labels per name. */
export const MAX_LABELS = 32;

const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const MAX_LABEL_LENGTH = 64;
/** Where goes what is one too many, or has no usable name. */
export const OTHER = 'other';

/** What plugins do wrong when they report, in words for the log. */
export const METER_RULES = [
  'a count must be a number from 0',
  'a gauge must be a finite number',
  'a name must be a lower-case word of letters, digits and "_"',
  `at most ${MAX_NAMES} names`,
  `a label must be a text of at most ${MAX_LABEL_LENGTH} characters`,
  `at most ${MAX_LABELS} labels for a name`,
] as const;

/** One of them. */
export type MeterRule = (typeof METER_RULES)[number];

const [COUNT_RULE, GAUGE_RULE, NAME_RULE, NAMES_RULE, LABEL_RULE, LABELS_RULE] = METER_RULES;

/** Takes what is within bounds; a policy has at most 32 names and `other`, each with at most 32 labels and `other`. */
export interface MeterSink {
  count(name: string, label: string, by: number): void;
  gauge(name: string, label: string, value: number): void;
  /** A rule was broken; said every time. */
  complain(rule: MeterRule): void;
}

/** What a policy is given; its functions work taken out of it as well. */
export function boundedMetrics(sink: MeterSink): PluginMetrics {
  const names = new MeterNames(sink);
  return Object.freeze({
    count(name: string, by = 1, label = '') {
      if (!(typeof by === 'number' && by >= 0 && by < Number.POSITIVE_INFINITY)) {
        sink.complain(COUNT_RULE);
        return;
      }
      const kept = names.nameOf(name);
      sink.count(kept, names.labelOf(kept, label), by);
    },
    gauge(name: string, value: number, label = '') {
      if (!Number.isFinite(value)) {
        sink.complain(GAUGE_RULE);
        return;
      }
      const kept = names.nameOf(name);
      sink.gauge(kept, names.labelOf(kept, label), value);
    },
  });
}

class MeterNames {
  readonly #sink: MeterSink;
  /** Labels by name. */
  readonly #known = new Map<string, Set<string>>();

  constructor(sink: MeterSink) {
    this.#sink = sink;
  }

  nameOf(name: unknown): string {
    // Whoever asks for it by name means the same.
    if (typeof name === 'string' && (name === OTHER || this.#known.has(name))) return name;
    const isName = typeof name === 'string' && NAME.test(name);
    if (isName && this.#known.size < MAX_NAMES) {
      this.#known.set(name, new Set());
      return name;
    }
    this.#sink.complain(isName ? NAMES_RULE : NAME_RULE);
    return OTHER;
  }

  labelOf(name: string, label: unknown): string {
    const labels = this.#known.get(name);
    // Under the name for what is too much, labels say nothing.
    if (labels === undefined || label === '') return '';
    if (label === OTHER) return OTHER;
    if (typeof label !== 'string' || label.length > MAX_LABEL_LENGTH) {
      this.#sink.complain(LABEL_RULE);
      return OTHER;
    }
    if (labels.has(label)) return label;
    if (labels.size < MAX_LABELS) {
      labels.add(label);
      return label;
    }
    this.#sink.complain(LABELS_RULE);
    return OTHER;
  }
}
