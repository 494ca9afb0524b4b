// Modules that plugins get from the running program, so that a plugin file needs no installation beside it.
import type { RouterConfig } from '../config/index.ts';
import type { PluginHostOptions } from '../host/index.ts';

/** The test kit, beside the contract that the loader brings itself; nothing is loaded when nothing is listed under `plugins`. */
export async function pluginModules(
  config: Pick<RouterConfig, 'plugins'>,
): Promise<NonNullable<PluginHostOptions['modules']>> {
  return config.plugins.length === 0 ? {} : testKit();
}

/** The test kit under the name that tests import. */
export async function testKit(): Promise<NonNullable<PluginHostOptions['modules']>> {
  return { 'pointsman/testing': await import('../testing/index.ts') };
}

/** The same for plugins in threads of their own, which load them themselves: file URLs. */
export function threadModules(): NonNullable<PluginHostOptions['threads']> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return {
    modules: { 'pointsman/testing': new URL(`../testing/index.${extension}`, import.meta.url).href },
  };
}
