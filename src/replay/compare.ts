// The names of `--compare`: what each run routes with.
import { extname } from 'node:path';
import { PointsmanError } from '../plugin/index.ts';
import type { RoutingChoice } from './types.ts';

/** Router modes that a replay can run; anything else has to be a policy file. Not `direct`: traces pin nobody. */
export const REPLAY_MODES = ['kv', 'round-robin', 'random', 'power-of-two', 'least-loaded'] as const;

/** Built-in worker-selection policies that a replay can run by their names, with their default parameters; `kv` is the first of them. */
export const REPLAY_POLICIES = [
  'dynamo-default-cost-fn',
  'pointsman-expected-time',
  'pointsman-tuned-cost',
  'dynamo-two-tier-cost-fn',
  'kvcr',
] as const;

const MAX_RUNS = 16;

/**
 * Reads a comma-separated list of names.
 * @throws PM_USAGE for an empty, repeated or unknown name.
 */
export function parseCompare(
  list: string,
): readonly { readonly name: string; readonly choice: RoutingChoice }[] {
  const names = list.split(',').map((name) => name.trim());
  if (names.length > MAX_RUNS) {
    throw new PointsmanError(
      'PM_USAGE',
      `--compare names ${names.length} runs; at most ${MAX_RUNS} are allowed`,
    );
  }
  return names.map((name, index) => {
    if (name === '') {
      throw new PointsmanError('PM_USAGE', `--compare ${JSON.stringify(list)} has an empty name`);
    }
    if (names.indexOf(name) !== index) {
      throw new PointsmanError('PM_USAGE', `--compare names ${name} twice`);
    }
    return { name, choice: choiceOf(name) };
  });
}

function choiceOf(name: string): RoutingChoice {
  const mode = REPLAY_MODES.find((one) => one === name);
  if (mode !== undefined) return { kind: 'mode', mode };
  const type = REPLAY_POLICIES.find((one) => one === name);
  if (type !== undefined) return { kind: 'built-in', type };
  const extension = extname(name);
  if (extension === '.yaml' || extension === '.yml') return { kind: 'policy', file: name };
  throw new PointsmanError(
    'PM_USAGE',
    `--compare cannot run ${JSON.stringify(name)}; it takes ${[...REPLAY_MODES, ...REPLAY_POLICIES].join(', ')} or a policy file ending in .yaml`,
  );
}
