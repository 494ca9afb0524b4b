// The bounds of a session prefix index, checked and with their defaults.
import { PointsmanError } from '../../plugin/index.ts';
import { requireOption } from '../residency/index-arguments.ts';
import type { LineageLimits } from './types.ts';

const MOST_SESSIONS = 2 ** 20;
const MOST_FRONTIERS = 2 ** 16;
/** Row numbers have 25 bits; a chain comes on top of the cap for a moment. */
const MOST_NODES = 2 ** 23;
const MOST_BYTES = 2 ** 29;
const MOST_CHAIN = 2 ** 20;

/** All limits, with defaults where none was given. @throws PM_KV_ARGUMENT when one is out of range. */
export function lineageLimits(given: LineageLimits): Required<LineageLimits> {
  const limits: Required<LineageLimits> = {
    maxSessions: 16_384,
    maxFrontiers: 64,
    maxNodes: 2_097_152,
    maxBytes: 134_217_728,
    maxChain: 131_072,
    timeToLiveMs: null,
    cleanupIntervalMs: 300_000,
    ...given,
  };
  const name = 'a session prefix index is capped at';
  requireOption(limits.maxSessions, 1, MOST_SESSIONS, name, 'sessions');
  requireOption(limits.maxFrontiers, 1, MOST_FRONTIERS, name, 'frontiers');
  requireOption(limits.maxNodes, 1, MOST_NODES, name, 'blocks');
  requireOption(limits.maxBytes, 1, MOST_BYTES, name, 'bytes');
  requireOption(limits.maxChain, 1, MOST_CHAIN, 'an update of a session prefix index is capped at', 'blocks');
  requireTime('a session is forgotten after', limits.timeToLiveMs ?? 1);
  requireTime('blocks of no session are pruned after', limits.cleanupIntervalMs);
  return limits;
}

function requireTime(what: string, ms: number): void {
  if (ms > 0) return;
  throw new PointsmanError('PM_KV_ARGUMENT', `${what} more than 0 ms, not ${ms}`, { details: { ms } });
}
