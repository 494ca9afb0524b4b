// Plugins that a configuration lists and does not use: nothing is wrong with them, but their author may wait for them to run.
import type { RouterConfig } from '../config/index.ts';
import type { PolicyCatalog } from './catalog.ts';
import type { ProblemList } from './problem-list.ts';
import type { HostResolution } from './resolved-host.ts';

/** Warns of each listed plugin of whose types none is used. */
export function warnOfUnusedPlugins(
  { plugins }: Pick<RouterConfig, 'plugins'>,
  { catalog, classifier, roles }: HostResolution,
  problems: ProblemList,
): void {
  const used = new Set([
    ...roles.flatMap(({ dormantHints, hints, selection }) => [
      selection.type,
      ...hints.map(({ prepared }) => prepared.type),
      // Those that run by default have their type for a name.
      ...dormantHints,
    ]),
    ...(classifier === null ? [] : [classifier.prepared.type]),
  ]);
  for (const { path, specifier } of plugins) {
    const defined = definedBy(specifier, catalog);
    if (defined.length === 0 || defined.some(({ type }) => used.has(type))) continue;
    const list = defined.map(({ kind, place, type }) => `${kind} ${type}, for ${place}`).join('; ');
    problems.warning('PM_CONFIG_NO_EFFECT', path, 'value', `nothing uses what ${specifier} defines: ${list}`);
  }
}

function definedBy(
  specifier: string,
  { classifiers, hints, selections }: PolicyCatalog,
): readonly { readonly type: string; readonly kind: string; readonly place: string }[] {
  return [
    { entries: hints, kind: 'hint policy', place: 'the hints of a role' },
    { entries: selections, kind: 'worker-selection policy', place: 'worker_selection' },
    { entries: classifiers, kind: 'request classifier', place: 'request_classifier' },
  ].flatMap(({ entries, kind, place }) =>
    [...entries.values()]
      .filter(({ origin }) => origin.name === specifier)
      .map(({ type }) => ({ type, kind, place })),
  );
}
