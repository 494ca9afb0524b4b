// What an SGLang server says of its load at `/v1/loads`, which needs no flag, unlike `/metrics`.
import type { AskEngine } from '../engine-description.ts';
import { countOrNull, isJsonObject } from '../json-value.ts';
import type { ReportedLoad } from '../reported-load.ts';

/** Asked for the numbers that every rank has. */
export const LOADS_PATH = '/v1/loads?include=core';

/** Load over all ranks; null = the server does not say. @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers. */
export async function askSglangLoad(ask: AskEngine): Promise<ReportedLoad | null> {
  const { status, text } = await ask({ method: 'GET', path: LOADS_PATH });
  return status === 200 ? readLoads(text) : null;
}

/** Reads an answer of `/v1/loads`; null = it says nothing of load. Never throws. */
export function readLoads(text: string): ReportedLoad | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  const ranks =
    isJsonObject(parsed) && Array.isArray(parsed.loads) ? (parsed.loads as readonly unknown[]) : [];
  let running: number | null = null;
  let waiting: number | null = null;
  let kvUsage: number | null = null;
  for (const rank of ranks) {
    if (!isJsonObject(rank)) continue;
    running = sum(running, countOrNull(rank.num_running_reqs));
    waiting = sum(waiting, countOrNull(rank.num_waiting_reqs));
    const usage = rank.token_usage;
    if (typeof usage === 'number' && usage >= 0) kvUsage = Math.max(kvUsage ?? 0, Math.min(usage, 1));
  }
  return running === null && waiting === null && kvUsage === null ? null : { running, waiting, kvUsage };
}

function sum(total: number | null, more: number | null): number | null {
  return more === null ? total : (total ?? 0) + more;
}
