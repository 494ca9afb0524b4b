// What a replayed router says about its policies: how often they failed, for the report, and why, for people. Replay has neither a
// log nor a metrics page, and a failing policy must not pass for a measured one.
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import type { LogFields, Logger } from '../plugin/index.ts';
import type { PolicyFault } from '../replay/index.ts';

/** More lines of one run would not be read. */
const MAX_LINES = 20;

/** Metrics and log of one replayed router. */
export interface PolicyFaults {
  readonly metrics: Metrics;
  readonly log: Logger;
  /** In the order of their first appearance. */
  list(): readonly PolicyFault[];
}

/** Counts the faults and hands on what is logged as a warning or an error, each line once and at most 20 of them. */
export function watchPolicies(say: (line: string) => void): PolicyFaults {
  const faults = new Map<string, { -readonly [K in keyof PolicyFault]: PolicyFault[K] }>();
  const add = (fault: Omit<PolicyFault, 'count'>, by: number): void => {
    const key = JSON.stringify(fault);
    const known = faults.get(key);
    if (known === undefined) faults.set(key, { ...fault, count: by });
    else known.count += by;
  };
  const told = new Set<string>();
  const tell = (message: string, fields: LogFields = {}): void => {
    // How often it has failed by now makes no new line.
    const { failures: _, overruns: __, ...place } = fields;
    const key = `${message}${fieldsText(place)}`;
    if (told.size >= MAX_LINES || told.has(key)) return;
    told.add(key);
    say(`${message}${fieldsText(fields)}`);
  };
  return {
    metrics: {
      ...NO_METRICS,
      count(name, labels = {}, by = 1) {
        const { policy = '', code = '', reason = '', plugin = '', part, classifier = '', result } = labels;
        if (name === 'pointsman_selection_fallbacks_total') add({ policy, lost: 'choice', reason: code }, by);
        else if (name === 'pointsman_hint_outputs_dropped_total')
          add({ policy, lost: 'actions', reason }, by);
        else if (name === 'pointsman_classifications_total' && (result === 'failed' || result === 'skipped'))
          add({ policy: classifier, lost: 'classification', reason: code || 'tripped' }, by);
        // A skipped worker selection is among the fallbacks already.
        else if (name === 'pointsman_plugin_skips_total' && part === 'hint')
          add({ policy: plugin, lost: 'actions', reason: 'tripped' }, by);
      },
    },
    log: { debug() {}, info() {}, warn: tell, error: tell },
    list: () => [...faults.values()].map((fault) => ({ ...fault })),
  };
}

function fieldsText(fields: LogFields): string {
  const told = Object.entries(fields).filter(([, value]) => value !== null);
  return told.length === 0 ? '' : ` (${told.map(([name, value]) => `${name}: ${value}`).join(', ')})`;
}
