// Which plugins a reload puts on probation, and what is said of one that does not stand it.
import { isDeepStrictEqual } from 'node:util';
import type { RouterConfig } from '../config/index.ts';
import type { PluginGuard } from './plugin-guard.ts';

/** Calls of a plugin after which it has proved itself. */
export const PROBATION_CALLS = 200;

/** A generation, as far as its plugins are compared. */
export interface Compared {
  readonly host: { guards(): readonly PluginGuard[] };
  readonly config: RouterConfig;
}

/** Whether the reload from `before` brought this plugin, another version of it, or other settings for its place. */
export function isOnProbation(guard: PluginGuard, serving: Compared, before: Compared): boolean {
  const { role, part, plugin } = guard.place;
  const older = before.host
    .guards()
    .find(({ place }) => place.role === role && place.part === part && place.plugin === plugin);
  if (older === undefined || older.origin?.version !== guard.origin?.version) return true;
  const settings = ({ config }: Compared) =>
    role === null
      ? [config.requestClassifier]
      : [config.router, config.workerSelection[role], config.instances];
  return !isDeepStrictEqual(settings(serving), settings(before));
}

/** Why its reload is taken back. */
export function tripReason(guard: PluginGuard): string {
  const { plugin, role, failures, overruns, version } = guard.status();
  const place = role === null ? 'request classifier' : `role ${role}`;
  const of = version === null ? place : `${place}, version ${version}`;
  return `${plugin} (${of}) tripped its breaker within its first ${guard.calls} calls, ${failures} of them failed and ${overruns} took too long`;
}
