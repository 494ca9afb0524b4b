// From the list under `plugins` to types in the catalog.
import { errorText } from '../plugin/index.ts';
import type { PolicyCatalog } from './catalog.ts';
import { ExportCollector } from './plugin-exports.ts';
import type { PluginHostOptions } from './plugin-host.ts';
import { PluginLibrary, type PluginOutcome } from './plugin-library.ts';
import type { ProblemList } from './problem-list.ts';

/** Loads what a configuration lists. */
export function loadListed({
  config,
  source,
  clock,
  modules,
}: PluginHostOptions): Promise<readonly PluginOutcome[]> {
  const specifiers = config.plugins.map(({ specifier }) => specifier);
  const library = new PluginLibrary(source.folder, clock);
  return library.load({ specifiers, base: [], packages: true, modules: modules ?? {} });
}

/** Takes the definitions of loaded plugins into the catalog, and reports what failed to load or to register. */
export async function registerPlugins(
  { config, clock }: PluginHostOptions,
  outcomes: readonly PluginOutcome[],
  catalog: PolicyCatalog,
  problems: ProblemList,
): Promise<void> {
  const collector = new ExportCollector(catalog, clock);
  for (const [index, outcome] of outcomes.entries()) {
    const path = config.plugins[index]?.path ?? ['plugins'];
    if (outcome.module === null) {
      problems.error('PM_PLUGIN_LOAD', path, 'value', errorText(outcome.error));
      continue;
    }
    for (const { code, message } of await collector.collect(outcome.module)) {
      problems.error(code, path, 'value', message);
    }
  }
}
