// Reads the payloads of hint actions as they came off the wire: strictly, with a bound on every list. What is not understood is null,
// and the caller rejects the action.

/** Hashes of one fetch that are looked at; the rest is left out, and the outcome says so. */
export const MAX_FETCH_HASHES = 4096;
const MAX_HASHES = 65_536;
const MAX_PREFETCH_HASHES = 4096;
const MAX_ENDPOINT = 512;
const MAX_SCOPE = 256;
const MAX_TTL_MS = 86_400_000;
const MAX_DURATION_S = 2_592_000;
const MAX_POSITION = 2 ** 31 - 1;
/** Token-range retains of one envelope, and directives in all of them. */
export const MAX_RANGE_ACTIONS = 16;
export const MAX_RANGE_DIRECTIVES = 128;

/** `kv.retain@1.0`: blocks by hash. */
export interface RetainBlocks {
  readonly kind: 'retain';
  readonly blockHashes: BigUint64Array;
  /** 0 to 100; 0 releases. */
  readonly priority: number;
  readonly ttlMs: number;
}

/** Tokens [start, end) of a request, its answer included. */
export interface RetainDirective {
  /** null = where the answer begins. */
  readonly start: number | null;
  /** null = the end of the answer. */
  readonly end: number | null;
  /** 0 to 100; 0 releases. */
  readonly priority: number;
  /** null = no end. */
  readonly ttlMs: number | null;
}

/** `kv.retain@1.1`: token ranges of the request. */
export interface RetainRanges {
  readonly kind: 'retain-ranges';
  /** Whose declaration it is; null = the session's. */
  readonly scope: string | null;
  readonly directives: readonly RetainDirective[];
}

/** `kv.evict@1.0`. */
export interface EvictBlocks {
  readonly kind: 'evict';
  readonly blockHashes: BigUint64Array;
  /** `all` = from host memory as well. */
  readonly tier: 'device' | 'all';
  readonly executeAt: 'admission' | 'request_completion';
  /** Blocks of the request itself from there on go as well; null = none. */
  readonly ownFrom: number | null;
}

/** `kv.prefetch@1.0`: from host memory to the device. */
export interface PrefetchBlocks {
  readonly kind: 'prefetch';
  readonly blockHashes: BigUint64Array;
}

/** `kv.fetch@1.0`: from a peer. */
export interface FetchBlocks {
  readonly kind: 'fetch';
  readonly endpoint: string;
  readonly blockHashes: BigUint64Array;
}

/** What an action asks for. */
export type HintPayload = RetainBlocks | RetainRanges | EvictBlocks | PrefetchBlocks | FetchBlocks;

type Fields = Readonly<Record<string, unknown>>;

/** Reader of each action's payload; null = malformed. */
export const PAYLOAD_READERS: Readonly<Record<string, (payload: Fields) => HintPayload | null>> = {
  'kv.fetch@1.0': readFetch,
  'kv.retain@1.0': readRetain,
  'kv.retain@1.1': readRanges,
  'kv.evict@1.0': readEvict,
  'kv.prefetch@1.0': readPrefetch,
};

/** An object of JSON, null for anything else. */
export function recordOf(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

function readFetch(payload: Fields): FetchBlocks | null {
  const endpoint = payload.source_control_endpoint;
  const blockHashes = hashesOf(payload.block_hashes, Number.POSITIVE_INFINITY);
  if (typeof endpoint !== 'string' || endpoint === '' || endpoint.length > MAX_ENDPOINT) return null;
  return blockHashes && { kind: 'fetch', endpoint, blockHashes };
}

function readRetain(payload: Fields): RetainBlocks | null {
  const blockHashes = hashesOf(payload.block_hashes, MAX_HASHES);
  const priority = integerOf(payload.priority, 0, 100);
  const ttlMs = integerOf(payload.ttl_ms, 1, MAX_TTL_MS);
  if (blockHashes === null || priority === null || ttlMs === null) return null;
  return { kind: 'retain', blockHashes, priority, ttlMs };
}

function readEvict(payload: Fields): EvictBlocks | null {
  const { current_request_block_start: start, execute_at: executeAt = 'admission', tier = 'all' } = payload;
  const blockHashes = hashesOf(payload.block_hashes, MAX_HASHES);
  if (blockHashes === null || (tier !== 'all' && tier !== 'device')) return null;
  if (executeAt !== 'admission' && executeAt !== 'request_completion') return null;
  if (start === undefined) return { kind: 'evict', blockHashes, tier, executeAt, ownFrom: null };
  const ownFrom = integerOf(start, 0, MAX_POSITION);
  // Before its end a request needs its own blocks.
  if (ownFrom === null || executeAt !== 'request_completion') return null;
  return { kind: 'evict', blockHashes, tier, executeAt, ownFrom };
}

function readPrefetch(payload: Fields): PrefetchBlocks | null {
  const blockHashes = hashesOf(payload.block_hashes, MAX_PREFETCH_HASHES);
  return blockHashes && { kind: 'prefetch', blockHashes };
}

function readRanges({ scope = null, directives, ...others }: Fields): RetainRanges | null {
  if (Object.keys(others).length > 0) return null;
  if (scope !== null && (typeof scope !== 'string' || scope === '' || scope.length > MAX_SCOPE)) return null;
  if (!Array.isArray(directives) || directives.length === 0 || directives.length > MAX_RANGE_DIRECTIVES)
    return null;
  const read: RetainDirective[] = [];
  for (const directive of directives as readonly unknown[]) {
    const one = readDirective(recordOf(directive));
    if (one === null) return null;
    read.push(one);
  }
  return mayRise(read) ? null : { kind: 'retain-ranges', scope, directives: read };
}

function readDirective(directive: Fields | null): RetainDirective | null {
  if (directive === null) return null;
  const { covers_output: output, duration = null, end = null, priority, start, ...others } = directive;
  const level = integerOf(priority, 0, 100);
  const seconds = duration === null ? null : numberOf(duration, MAX_DURATION_S);
  if (Object.keys(others).length > 0 || level === null || (duration !== null && seconds === null))
    return null;
  const ttlMs = seconds === null ? null : 1000 * seconds;
  if (output !== undefined) {
    if (output !== true || start !== undefined || 'end' in directive) return null;
    return { start: null, end: null, priority: level, ttlMs };
  }
  const from = start === undefined ? 0 : integerOf(start, 0, MAX_POSITION);
  const to = end === null ? null : integerOf(end, 1, MAX_POSITION);
  if (from === null || (end !== null && to === null) || (to !== null && to <= from)) return null;
  return { start: from, end: to, priority: level, ttlMs };
}

/** Whether a later token would have a higher priority than an earlier one: it could not be used without that. */
function mayRise(directives: readonly RetainDirective[]): boolean {
  const at = (one: RetainDirective): number => one.start ?? Number.POSITIVE_INFINITY;
  const ordered = [...directives].sort((a, b) => (at(a) === at(b) ? 0 : at(a) - at(b)));
  return ordered.some((one, index) => index > 0 && one.priority > ordered[index - 1]!.priority);
}

/** Block hashes in any lossless form; null when one is not a u64, or when they are too many. */
function hashesOf(value: unknown, most: number): BigUint64Array | null {
  if (value instanceof BigUint64Array) return value.length <= most ? value : null;
  if (!Array.isArray(value) || value.length > most) return null;
  const hashes = new BigUint64Array(value.length);
  for (const [index, entry] of (value as readonly unknown[]).entries()) {
    if (typeof entry === 'bigint' && entry >= 0n && entry < 1n << 64n) hashes[index] = entry;
    else if (typeof entry === 'number' && Number.isSafeInteger(entry) && entry >= 0)
      hashes[index] = BigInt(entry);
    else return null;
  }
  return hashes;
}

function integerOf(value: unknown, least: number, most: number): number | null {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most
    ? number
    : null;
}

function numberOf(value: unknown, most: number): number | null {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && number >= 0 && number <= most ? number : null;
}
