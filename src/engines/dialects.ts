// The table of dialects by the name that configuration uses.
import type { Worker, WorkerCapabilities } from '../fleet/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { EngineDialect } from './dialect.ts';
import { SIM_DIALECT } from './sim/index.ts';

/** Every dialect that can be used now. */
export const DIALECTS: ReadonlyMap<string, EngineDialect> = new Map([[SIM_DIALECT.name, SIM_DIALECT]]);

/** An engine in this process: nothing is written for it. */
const IN_PROCESS = 'llamacpp-node';
/** Takes the dialect from what the engine says about itself. */
const AUTO = 'auto';
const NOT_YET: ReadonlySet<string> = new Set(['vllm', 'sglang', 'trtllm', 'llamacpp']);

/**
 * Checks a worker's dialect before it joins the fleet.
 * @param advertised what configuration says of its capabilities: `none` = it is not asked for them, `ask` = it is.
 * @throws PointsmanError PM_ENGINE_DIALECT
 */
export function requireDialect(name: string, advertised: 'ask' | 'none' | WorkerCapabilities = 'ask'): void {
  if (DIALECTS.has(name) || name === IN_PROCESS) return;
  if (name === AUTO) {
    if (advertised === 'ask') return;
    if (advertised === 'none') {
      const sentence =
        'dialect "auto" asks the engine what it is, and capabilities: none says not to ask; name the dialect';
      throw new PointsmanError('PM_ENGINE_DIALECT', `${sentence}: ${known(DIALECTS)}`);
    }
    recognized(advertised, DIALECTS, 'the worker');
    return;
  }
  const available = known(DIALECTS);
  throw new PointsmanError(
    'PM_ENGINE_DIALECT',
    NOT_YET.has(name)
      ? `dialect "${name}" is not available yet; available: ${available}`
      : `there is no dialect "${name}"; available: ${available}`,
    { details: { dialect: name } },
  );
}

/** The dialect of a worker now. @throws PointsmanError PM_ENGINE_DIALECT when none of the given ones fits. */
export function dialectOf(worker: Worker, dialects: ReadonlyMap<string, EngineDialect>): EngineDialect {
  const { dialect: name, id } = worker.spec;
  if (name === AUTO) return recognized(worker.capabilities, dialects, `worker ${id}`);
  const dialect = dialects.get(name);
  if (dialect !== undefined) return dialect;
  throw new PointsmanError(
    'PM_ENGINE_DIALECT',
    `worker ${id} has dialect "${name}", which is not loaded; loaded: ${known(dialects)}`,
  );
}

/** Why requests cannot be written for a worker as things stand, in a sentence; null when they can. */
export function dialectProblem(worker: Worker): string | null {
  if (worker.spec.dialect === IN_PROCESS) return null;
  try {
    dialectOf(worker, DIALECTS);
    return null;
  } catch (thrown) {
    return errorText(thrown);
  }
}

function recognized(
  capabilities: WorkerCapabilities | null,
  dialects: ReadonlyMap<string, EngineDialect>,
  who: string,
): EngineDialect {
  for (const dialect of dialects.values()) {
    if (capabilities !== null && dialect.speaks(capabilities.hashScheme)) return dialect;
  }
  const why =
    capabilities === null
      ? 'but its engine does not say what it is (GET /kv_hints/capabilities)'
      : `but the hash scheme "${capabilities.hashScheme}" belongs to no dialect that is available`;
  throw new PointsmanError(
    'PM_ENGINE_DIALECT',
    `${who} has dialect "auto", ${why}; name its dialect: ${known(dialects)}`,
  );
}

function known(dialects: ReadonlyMap<string, EngineDialect>): string {
  return [...dialects.keys()].join(', ');
}
