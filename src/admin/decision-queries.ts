// Reads the query of `/decisions` and answers it from the ring of records.
import { didYouMean } from '../config/index.ts';
import type { DecisionReader } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1000;
const MAX_U64 = 0xffffffffffffffffn;
const KEYS = ['limit', 'session', 'session_id', 'worker', 'request'];

/**
 * `?request=ID`: all attempts of a request in full, oldest first. Otherwise the newest decisions without candidates, by
 * `limit` (1–1000, default 50), `session` (the record's `id_hash`), `session_id` (the id itself, which is hashed as the record's was) and `worker` (u64).
 * @throws PointsmanError PM_ADMIN_QUERY on anything else
 */
export function listDecisions(decisions: DecisionReader, query: URLSearchParams): unknown {
  for (const key of query.keys()) {
    if (!KEYS.includes(key))
      throw queryError(`unknown parameter "${key.slice(0, 40)}"${didYouMean(key, KEYS)}`);
  }
  for (const key of KEYS) if (query.getAll(key).length > 1) throw queryError(`${key} is given twice`);
  const request = query.get('request');
  if (request !== null) {
    if (query.size > 1) throw queryError('request stands alone; leave out the other parameters');
    return decisions.ofRequest(request);
  }
  const session = query.get('session');
  if (session !== null && !/^[0-9a-f]{8}$/.test(session)) {
    throw queryError("session must be the 8 hexadecimal digits of a record's session.id_hash");
  }
  const sessionId = query.get('session_id');
  if (sessionId !== null && !/^[\x20-\x7e]{1,256}$/.test(sessionId)) {
    throw queryError('session_id must be 1 to 256 printable ASCII characters');
  }
  const worker = query.get('worker');
  if (worker !== null && !(/^\d{1,20}$/.test(worker) && BigInt(worker) <= MAX_U64)) {
    throw queryError(`worker must be a worker id, from 0 to ${MAX_U64}`);
  }
  const limit = query.get('limit') ?? String(DEFAULT_LIMIT);
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LIMIT) {
    throw queryError(`limit must be a whole number from 1 to ${MAX_LIMIT}`);
  }
  const filter = {
    ...(session === null ? {} : { sessionIdHash: session }),
    ...(sessionId === null ? {} : { sessionId }),
    ...(worker === null ? {} : { workerId: BigInt(worker) }),
  };
  return decisions.list(Number(limit), filter).map(({ candidates: _, ...rest }) => rest);
}

/** One decision in full; throws PM_ADMIN_NOT_FOUND. */
export function oneDecision(decisions: DecisionReader, id: string): unknown {
  const record = decisions.get(id);
  if (record !== null) return record;
  throw new PointsmanError(
    'PM_ADMIN_NOT_FOUND',
    `no decision has the id "${id.slice(0, 80)}"; the ring holds the newest within limits.decision_bytes, and requests refused before a worker was booked have none`,
  );
}

function queryError(message: string): PointsmanError {
  return new PointsmanError('PM_ADMIN_QUERY', message);
}
