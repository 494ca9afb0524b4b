// From what a program hands over and what is listed under `plugins` to types in the catalog.
import { errorText } from '../plugin/index.ts';
import type { Origin, PolicyCatalog } from './catalog.ts';
import { ExportCollector } from './plugin-exports.ts';
import type { PluginHostOptions } from './plugin-host.ts';
import { PluginLibrary, type PluginOutcome } from './plugin-library.ts';
import type { ProblemList } from './problem-list.ts';

/** The program that a host runs in, as the origin of what it registers. */
const EMBEDDER: Origin = { name: 'the embedding program', version: 'embedded' };

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

/**
 * Takes definitions into the catalog: those at hand, those that the program around the host registers, then those of loaded plugins.
 * Reports what failed to load or to register.
 */
export async function registerPlugins(
  { config, clock, definitions = [], register }: PluginHostOptions,
  outcomes: readonly PluginOutcome[],
  catalog: PolicyCatalog,
  problems: ProblemList,
): Promise<void> {
  const collector = new ExportCollector(catalog, clock);
  for (const definition of definitions) {
    const module = { specifier: 'the definition at hand', exports: { definition }, version: 'at hand' };
    for (const { code, message } of await collector.collect(module)) {
      problems.error(code, [], 'value', message);
    }
  }
  if (register !== undefined) {
    for (const { code, message } of await collector.registerFrom(register, EMBEDDER)) {
      problems.error(code, [], 'key', message);
    }
  }
  for (const [index, outcome] of outcomes.entries()) {
    const path = config.plugins[index]?.path ?? ['plugins'];
    if (outcome.module === null) {
      problems.error('PM_PLUGIN_LOAD', path, 'value', errorText(outcome.error));
      catalog.missing.push(config.plugins[index]?.specifier ?? 'a plugin');
      continue;
    }
    for (const { code, message } of await collector.collect(outcome.module)) {
      problems.error(code, path, 'value', message);
    }
  }
}
