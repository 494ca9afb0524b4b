// What the command line and the environment say over the file. Precedence for prefill and decode: their own override, then
// DYN_ROUTER_WORKER_SELECTION_POLICY, then the file; for aggregated and encode the environment, then the file.
import { PointsmanError, ROLES, type Role } from '../plugin/index.ts';
import { defaultEntry } from './build.ts';
import { didYouMean } from './nearest.ts';
import { LOG_LEVELS, ROUTER_MODES } from './schema.ts';
import type { RoleSelectionEntry, RouterConfig } from './types.ts';

/** Overrides; absent members change nothing. */
export interface ConfigOverrides {
  /** `--router-mode`. */
  readonly routerMode?: string;
  /** `--router-prefill-policy`, else DYN_ROUTER_PREFILL_POLICY: a type, an instance name, or `default`. */
  readonly prefillPolicy?: string;
  /** `--router-decode-policy`, else DYN_ROUTER_DECODE_POLICY. */
  readonly decodePolicy?: string;
  /** DYN_ROUTER_WORKER_SELECTION_POLICY: every role. */
  readonly workerSelectionPolicy?: string;
  /** POINTSMAN_LOG_LEVEL. */
  readonly logLevel?: string;
}

/** The overrides of an environment; empty variables count as unset. */
export function overridesFromEnv(env: Readonly<Record<string, string | undefined>>): ConfigOverrides {
  const prefillPolicy = env.DYN_ROUTER_PREFILL_POLICY;
  const decodePolicy = env.DYN_ROUTER_DECODE_POLICY;
  const workerSelectionPolicy = env.DYN_ROUTER_WORKER_SELECTION_POLICY;
  const logLevel = env.POINTSMAN_LOG_LEVEL;
  return {
    ...(prefillPolicy ? { prefillPolicy } : {}),
    ...(decodePolicy ? { decodePolicy } : {}),
    ...(workerSelectionPolicy ? { workerSelectionPolicy } : {}),
    ...(logLevel ? { logLevel } : {}),
  };
}

/**
 * A configuration with overrides applied; the given one is not changed. An overridden role gets the named policy, loses the
 * parameters of the old one, and keeps its hints.
 * @throws PointsmanError PM_USAGE on an unknown router mode or log level
 */
export function applyOverrides(config: RouterConfig, overrides: ConfigOverrides): RouterConfig {
  const everyRole = overrides.workerSelectionPolicy;
  const perRole: Readonly<Record<Role, string | undefined>> = {
    aggregated: everyRole,
    prefill: overrides.prefillPolicy ?? everyRole,
    decode: overrides.decodePolicy ?? everyRole,
    encode: everyRole,
  };
  const workerSelection: Partial<Record<Role, RoleSelectionEntry>> = { ...config.workerSelection };
  for (const role of ROLES) {
    const name = perRole[role];
    if (name === undefined) continue;
    const before = config.workerSelection[role] ?? defaultEntry(['worker_selection', role]);
    workerSelection[role] = { ...before, policy: { kind: 'name', name }, parameters: {} };
  }
  const mode =
    overrides.routerMode === undefined
      ? config.router.mode
      : one(ROUTER_MODES, overrides.routerMode, 'router mode');
  const logLevel =
    overrides.logLevel === undefined
      ? config.observe.logLevel
      : one(LOG_LEVELS, overrides.logLevel, 'log level');
  return {
    ...config,
    router: { ...config.router, mode },
    observe: { ...config.observe, logLevel },
    workerSelection,
  };
}

function one<const W extends string>(words: readonly W[], given: string, what: string): W {
  const found = words.find((word) => word === given);
  if (found !== undefined) return found;
  const hint = didYouMean(given, words) || `; known: ${words.join(', ')}`;
  throw new PointsmanError('PM_USAGE', `unknown ${what} "${given.slice(0, 64)}"${hint}`);
}
