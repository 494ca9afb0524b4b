// The table of dialects by the name that configuration uses.
import { PointsmanError } from '../plugin/index.ts';
import type { EngineDialect } from './dialect.ts';
import { SIM_DIALECT } from './sim/index.ts';

/** Every dialect that can be used now. */
export const DIALECTS: ReadonlyMap<string, EngineDialect> = new Map([[SIM_DIALECT.name, SIM_DIALECT]]);

const NOT_YET: ReadonlySet<string> = new Set([
  'auto',
  'vllm',
  'sglang',
  'trtllm',
  'llamacpp',
  'llamacpp-node',
]);

/** Checks a worker's dialect before it joins the fleet. @throws PointsmanError PM_ENGINE_DIALECT */
export function requireDialect(name: string): EngineDialect {
  const dialect = DIALECTS.get(name);
  if (dialect !== undefined) return dialect;
  const available = [...DIALECTS.keys()].join(', ');
  throw new PointsmanError(
    'PM_ENGINE_DIALECT',
    NOT_YET.has(name)
      ? `dialect "${name}" is not available yet; available: ${available}`
      : `there is no dialect "${name}"; available: ${available}`,
    { details: { dialect: name } },
  );
}
