// Two older ways to give hints: `hint_policies.<role>`, now that role's `hints`, and `kv_hint_policy`, one hint policy behind those of
// every role. Both go on working; a warning shows how the file is written today.
import { stringify } from 'yaml';
import { ROLES } from '../plugin/index.ts';
import { placeOf } from './policy-file.ts';
import type { FileValue } from './schema.ts';
import type { ConfigPath, ConfigProblem, ConfigSource } from './types.ts';
import { isRecord } from './values.ts';

/** Longest rewritten section that is shown, in characters. */
const MAX_SHOWN = 65_536;

/** Hints that one role is given twice, in two spellings; each error names both places. */
export function spelledTwice(file: FileValue, source: ConfigSource): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const report = (path: ConfigPath, message: string): void => {
    problems.push({ severity: 'error', code: 'PM_CONFIG_CONFLICT', path, anchor: 'key', message });
  };
  for (const role of ROLES) {
    const own = hintsPath(file, role);
    const older = file.hint_policies?.[role] ?? null;
    const olderPath = ['hint_policies', role];
    if (own !== null && older !== null) {
      report(
        olderPath,
        `hints of role ${role} are also given at ${placeOf(source, own)}; keep those, and remove these`,
      );
    }
    const everywhere = file.kv_hint_policy;
    if (everywhere === null) continue;
    const name = everywhere.name ?? everywhere.type;
    const entry = file.worker_selection?.[role];
    const listed = (entry && !('bare' in entry) ? entry.hints : null) ?? older ?? [];
    const at = listed.findIndex((hint) => (hint.name ?? hint.type) === name);
    if (at < 0) continue;
    const place = placeOf(source, [...(own ?? olderPath), at]);
    report(
      ['kv_hint_policy'],
      `hint policy ${name} of role ${role} is also listed at ${place}; keep one of the two`,
    );
  }
  return problems;
}

/** One warning per older key in use, with the present form of the section. */
export function olderSpellings(file: FileValue, written: Readonly<Record<string, unknown>>): ConfigProblem[] {
  const used = (['hint_policies', 'kv_hint_policy'] as const).filter((key) => file[key] !== null);
  if (used.length === 0) return [];
  const yaml = rewritten(file, written);
  const shown = yaml.length > MAX_SHOWN ? `${yaml.slice(0, MAX_SHOWN)}\n# …` : yaml;
  const instead = used.length === 2 ? 'instead of both' : 'instead';
  return used.map((key) => ({
    severity: 'warning',
    code: 'PM_CONFIG_DEPRECATED',
    path: [key],
    anchor: 'key',
    message: `is an older spelling of hints under worker_selection; write ${instead}:\n${shown.trimEnd()}`,
  }));
}

/** `worker_selection` as it is written today. */
function rewritten(file: FileValue, written: Readonly<Record<string, unknown>>): string {
  const before = isRecord(written.worker_selection) ? written.worker_selection : {};
  const older = isRecord(written.hint_policies) ? written.hint_policies : {};
  const section: Record<string, unknown> = { ...before };
  let defaultsKept = false;
  for (const role of ROLES) {
    const own = hintsPath(file, role) === null ? null : (before[role] as { hints: unknown[] }).hints;
    const listed = own ?? (file.hint_policies?.[role] ? (older[role] as unknown[]).map(asHint) : null);
    if (listed === null && file.kv_hint_policy === null) continue;
    if (own !== null && file.kv_hint_policy === null) continue;
    if (listed === null) defaultsKept = true;
    const hints = file.kv_hint_policy === null ? listed : [...(listed ?? []), written.kv_hint_policy];
    section[role] = { ...asMapping(before[role], file), hints };
  }
  const yaml = stringify({ worker_selection: section }, { aliasDuplicateObjects: false });
  const remark =
    '# Where a role had no hints, those that run by default go on beside kv_hint_policy. A list replaces them: put them before it\n' +
    '# (pointsman check names them).\n';
  return defaultsKept ? `${remark}${yaml}` : yaml;
}

/** A bare name is a type. */
function asHint(hint: unknown): unknown {
  return typeof hint === 'string' ? { type: hint } : hint;
}

/** A role entry that can take hints. */
function asMapping(entry: unknown, file: FileValue): Readonly<Record<string, unknown>> {
  if (typeof entry !== 'string') return isRecord(entry) ? entry : {};
  if (entry === 'default') return {};
  const isInstance = (file.worker_selection?.instances ?? []).some(({ name }) => name === entry);
  return isInstance ? { instance: entry } : { type: entry };
}

/** Where a role lists hints today; null when it does not. */
function hintsPath(file: FileValue, role: (typeof ROLES)[number]): ConfigPath | null {
  const entry = file.worker_selection?.[role];
  return entry && !('bare' in entry) && entry.hints ? ['worker_selection', role, 'hints'] : null;
}
