// The table of dialects by the name that configuration uses, and which of them a worker's engine speaks.
import type { Worker, WorkerCapabilities } from '../fleet/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { EngineDialect } from './dialect.ts';
import { SIM_DIALECT } from './sim/index.ts';
import { VLLM_DIALECT } from './vllm/index.ts';

/** Every dialect that can be used now, in the order in which an engine of dialect `auto` is asked whether it speaks it. */
export const DIALECTS: ReadonlyMap<string, EngineDialect> = new Map(
  [SIM_DIALECT, VLLM_DIALECT].map((dialect) => [dialect.name, dialect]),
);

/** Takes the dialect from what the engine says about itself. */
export const AUTO = 'auto';
const NOT_YET: ReadonlySet<string> = new Set(['sglang', 'trtllm', 'llamacpp', 'llamacpp-node']);

/**
 * Checks a worker's dialect before it joins the fleet.
 * @param advertised what configuration says of its capabilities: `none` = it is not asked for them, `ask` = it is.
 * @throws PointsmanError PM_ENGINE_DIALECT
 */
export function requireDialect(name: string, advertised: 'ask' | 'none' | WorkerCapabilities = 'ask'): void {
  if (DIALECTS.has(name)) return;
  if (name === AUTO) {
    if (advertised !== 'none') return;
    const sentence =
      'dialect "auto" asks the engine what it is, and capabilities: none says not to ask; name the dialect';
    throw new PointsmanError('PM_ENGINE_DIALECT', `${sentence}: ${known(DIALECTS)}`);
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
  if (name === AUTO) return recognized(worker, dialects);
  const dialect = dialects.get(name);
  if (dialect !== undefined) return dialect;
  throw new PointsmanError(
    'PM_ENGINE_DIALECT',
    `worker ${id} has dialect "${name}", which is not loaded; loaded: ${known(dialects)}`,
  );
}

/** The dialect that an advertisement belongs to; null = none of the given ones. */
export function advertisedDialect(
  capabilities: WorkerCapabilities | null,
  dialects: ReadonlyMap<string, EngineDialect>,
): EngineDialect | null {
  if (capabilities === null) return null;
  for (const dialect of dialects.values()) if (dialect.speaks(capabilities.hashScheme)) return dialect;
  return null;
}

/** Why requests cannot be written for a worker as things stand, in a sentence; null when they can. */
export function dialectProblem(worker: Worker): string | null {
  try {
    dialectOf(worker, DIALECTS);
    return null;
  } catch (thrown) {
    return errorText(thrown);
  }
}

function recognized(worker: Worker, dialects: ReadonlyMap<string, EngineDialect>): EngineDialect {
  const { capabilities, engine = null } = worker;
  const dialect =
    (engine === null ? undefined : dialects.get(engine.dialect)) ?? advertisedDialect(capabilities, dialects);
  if (dialect !== null) return dialect;
  const why =
    capabilities === null
      ? 'but its engine does not say what it is'
      : `but the hash scheme "${capabilities.hashScheme}" belongs to no dialect that is available, and its engine does not say what it is`;
  throw new PointsmanError(
    'PM_ENGINE_DIALECT',
    `worker ${worker.spec.id} has dialect "auto", ${why}; name its dialect: ${known(dialects)}`,
  );
}

function known(dialects: ReadonlyMap<string, EngineDialect>): string {
  return [...dialects.keys()].join(', ');
}
