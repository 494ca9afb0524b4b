// Whether a router can serve, and what works worse than configured, in words. `/ready` of both ports shows it.
import type { RouterConfig } from '../config/index.ts';
import { dialectProblem } from '../engines/index.ts';
import type { EventFeed, RejectReason } from '../events/index.ts';
import { saidBlockSize, type Worker, type WorkerState } from '../fleet/index.ts';
import type { RoleResolution, SiteFailure } from '../host/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { Readiness } from '../observe/index.ts';
import type { Finding, FindingCode } from '../parity/index.ts';
import type { Role } from '../plugin/index.ts';
import { ANSWERS_WITHOUT_EVENTS } from './approximate-ranks.ts';
import { type SubscriptionStatus, unconnected } from './event-subscriptions.ts';
import { missingRoles, servedRoles, servingOf, unservedReason } from './served-roles.ts';

/** What is looked at. */
export interface ReadinessFacts {
  readonly config: RouterConfig;
  readonly workers: readonly Worker[];
  /** Workers were not all asked about themselves yet. */
  readonly starting: boolean;
  /** Whether a health check of a worker ever succeeded. A worker that joins is `ready` until three of them failed. */
  readonly answered: (workerId: bigint) => boolean;
  /** Null = nobody reads KV events. */
  readonly subscriptions: readonly SubscriptionStatus[] | null;
  readonly feed: (slot: OwnerSlot) => EventFeed | null;
  readonly blockSizeOf: (model: string) => number | null;
  /** What each role uses. */
  readonly roles: readonly Pick<RoleResolution, 'role' | 'hints'>[];
  /** Partitions whose policies cannot be created. */
  readonly failures: readonly Pick<SiteFailure, 'partition' | 'role' | 'reason' | 'due'>[];
  /** Requests of a worker for which it computed whole blocks, which its events must have told. */
  readonly unheard: (workerId: bigint) => number;
  /** What is wrong with a model's token ids, in sentences that follow its name; absent = nothing. */
  readonly tokenNotes?: (model: string) => readonly string[];
  /** What parity checks find; absent = nobody compares. */
  readonly parity?: () => readonly Finding[];
}

/** More sentences would not be read. */
const MAX_SENTENCES = 100;

/** The state of a router. */
export function readinessOf(facts: ReadinessFacts): Readiness {
  const reasons = [
    ...(facts.starting ? ['workers are still being asked about themselves'] : []),
    ...fleetReasons(facts),
  ];
  const warnings = [
    ...failureWarnings(facts),
    ...roleWarnings(facts),
    ...modelWarnings(facts),
    ...dialectWarnings(facts),
    ...silentWarnings(facts),
    ...eventWarnings(facts),
    ...blockSizeWarnings(facts),
    ...parityWarnings(facts),
    ...hintWarnings(facts),
    ...tokenWarnings(facts),
  ];
  return { reasons, warnings: warnings.slice(0, MAX_SENTENCES) };
}

function fleetReasons(facts: ReadinessFacts): string[] {
  const { config, workers } = facts;
  if (config.models.size === 0) return ['no model is configured'];
  if (workers.length === 0) return ['there are no workers'];
  const serving = servingOf(workers);
  if (serving.length === 0) {
    const one = workers.length === 1;
    return [
      `none of the ${workers.length} workers gets requests: ${one ? 'it has' : 'they have'} role encode`,
    ];
  }
  const ready = serving.filter((worker) => isReady(worker, facts));
  const models = [...new Set(ready.map(({ spec }) => spec.model))];
  const served = models.filter((model) => missingOf(model, ready, facts).length === 0);
  if (served.some((model) => !failedModels(facts).has(model))) return [];
  if (served.length > 0) return failureWarnings(facts);
  if (ready.length === 0)
    return [`none of the ${serving.length} workers is ready (${statesOf(serving, facts)})`];
  return models.map((model) => halfServed(model, missingOf(model, ready, facts)));
}

function missingOf(model: string, ready: readonly Worker[], { config, workers }: ReadinessFacts) {
  return missingRoles(model, workers, ready, config.router.disaggregation.decodeFallback);
}

function halfServed(model: string, [missing]: readonly Role[]): string {
  const remedy =
    missing === 'prefill' ? '; router.decode_fallback: true lets decode workers compute prompts' : '';
  return `model ${model} is served by prefill and decode workers, and no ${missing} worker is ready${remedy}`;
}

function failureWarnings({ failures, workers }: ReadinessFacts): string[] {
  return failures.filter((one) => isServed(one, workers)).map(({ reason }) => reason);
}

/**
 * Models that cannot be served, whatever their workers do. One whose pause is over is not among them: only a request tries it again,
 * and none comes to a router that says it cannot serve.
 */
function failedModels({ failures, workers }: ReadinessFacts): ReadonlySet<string> {
  const failed = failures.filter((one) => !one.due && isServed(one, workers));
  return new Set(failed.map(({ partition }) => partition.model));
}

function isServed(
  { partition, role }: ReadinessFacts['failures'][number],
  workers: readonly Worker[],
): boolean {
  return servedRoles(partition.model, workers).includes(role);
}

/** While the first questions are open nobody has answered: `starting` says so. */
function isReady({ state, spec }: Worker, { starting, answered }: ReadinessFacts): boolean {
  return state === 'ready' && (starting || answered(spec.id));
}

function roleWarnings({ workers }: ReadinessFacts): string[] {
  return workers.flatMap((worker) => unservedReason(worker, workers) ?? []);
}

function modelWarnings(facts: ReadinessFacts): string[] {
  const { config, workers } = facts;
  const serving = servingOf(workers);
  if (serving.length === 0) return [];
  const ready = serving.filter((worker) => isReady(worker, facts));
  return [...config.models.keys()].flatMap((model) => {
    const of = serving.filter((worker) => worker.spec.model === model);
    if (of.length === 0) return [`model ${model} has no worker`];
    const missing = missingOf(model, ready, facts);
    if (missing.length === 0) return lostWarnings(of, facts);
    return ready.some(({ spec }) => spec.model === model)
      ? [halfServed(model, missing)]
      : [`model ${model} has no ready worker (${statesOf(of, facts)})`];
  });
}

/** Workers of a model that others still serve; those that never answered, or cannot be talked to, are told of elsewhere. */
function lostWarnings(workers: readonly Worker[], { answered }: ReadinessFacts): string[] {
  return workers.flatMap((worker) => {
    const { spec, state } = worker;
    if (!answered(spec.id) || dialectProblem(worker) !== null) return [];
    const who = `worker ${spec.id} of model ${spec.model} at ${spec.url}`;
    if (state === 'gone') return [`${who} is gone: its health checks fail, so it gets no requests`];
    if (state === 'suspect')
      return [`${who} is suspect: it broke a connection, and gets no requests until a health check succeeds`];
    return [];
  });
}

/** Lost because nobody knows how to talk to it: "gone" alone would send people looking for a dead engine. */
function dialectWarnings({ workers, starting }: ReadinessFacts): string[] {
  return starting ? [] : workers.flatMap((worker) => dialectProblem(worker) ?? []);
}

/** A wrong url looks like an engine that is still loading: both are told with where they were asked. */
function silentWarnings({ workers, starting, answered }: ReadinessFacts): string[] {
  if (starting) return [];
  return workers
    .filter((worker) => !answered(worker.spec.id) && dialectProblem(worker) === null)
    .map(({ spec }) => `worker ${spec.id} has not answered at ${spec.url} yet; it is asked again and again`);
}

function statesOf(workers: readonly Worker[], facts: ReadinessFacts): string {
  const counts = new Map<WorkerState | 'silent', number>();
  for (const worker of workers) {
    const state = worker.state === 'ready' && !isReady(worker, facts) ? 'silent' : worker.state;
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts].map(([state, count]) => `${count} ${state}`).join(', ');
}

/** A stream that is missing or wrong routes as if nothing were cached there. */
function eventWarnings({ subscriptions, workers, answered, feed, unheard }: ReadinessFacts): string[] {
  if (subscriptions === null) return [];
  const byId = new Map(workers.map((worker) => [worker.spec.id, worker]));
  return subscriptions.flatMap(({ worker: id, rank, endpoint, connected }) => {
    const worker = byId.get(id);
    if (worker === undefined || worker.state === 'gone' || !answered(id)) return [];
    const who = `worker ${id} rank ${rank}`;
    if (endpoint === null) {
      return [
        `${who} announces no KV events: what it has cached is estimated from what is sent to it; name its endpoint under kv_events`,
      ];
    }
    if (!connected) return [unconnected(id, rank, endpoint)];
    const stream = feed(worker.slots[rank - worker.spec.ranks.first] ?? -1);
    if (stream !== null) return feedWarnings(who, stream);
    // Requests are counted per worker: with several ranks a silent one may simply have had none.
    if (worker.slots.length > 1 || unheard(id) < ANSWERS_WITHOUT_EVENTS) return [];
    return [
      `${who} answered ${unheard(id)} prompts of new blocks, but none of its KV events at ${endpoint} was heard: what it has cached is estimated from what is sent to it; check that its prefix cache and KV events are on, and the topic`,
    ];
  });
}

/** Events that say something the router cannot use, as opposed to one that another event explains. */
const LEFT_OUT: readonly RejectReason[] = [
  'extra_keys',
  'unknown_kind',
  'bigram_tokens',
  'plain_tokens',
  'token_count',
  'unknown_rank',
  'ambiguous_cache_namespace',
  'cache_namespace_full',
  'hash_conflict',
  'page_capacity',
];

function feedWarnings(who: string, feed: EventFeed): string[] {
  const warnings: string[] = [];
  if (feed.mismatchedBlockSize !== null) {
    warnings.push(
      `${who} stores blocks of ${feed.mismatchedBlockSize} tokens, which do not make up its model's blocks: what it has cached is estimated from what is sent to it; give the model a block_size that is a multiple of it`,
    );
  }
  const { undecodable = 0, failed = 0 } = feed.rejected;
  if (undecodable > 0) {
    warnings.push(
      `${undecodable} batches of KV events of ${who} could not be read: what it has cached is not fully known (the latest: ${feed.lastError})`,
    );
  }
  if (failed > 0) {
    warnings.push(
      `${failed} KV events of ${who} could not be applied: what it has cached is not fully known (the latest: ${feed.lastError})`,
    );
  }
  const lost = feed.rejectedBlocks.unknown_parent ?? 0;
  if (lost > 0) {
    warnings.push(
      `${lost} blocks of ${who} were dropped, as the block before them never came: what it has cached is not fully known`,
    );
  }
  const leftOut = LEFT_OUT.filter((reason) => (feed.rejected[reason] ?? 0) > 0);
  if (leftOut.length > 0) {
    const counts = leftOut.map((reason) => `${feed.rejected[reason]} ${reason}`).join(', ');
    warnings.push(`KV events of ${who} were left out, so their blocks are not found (${counts})`);
  }
  if (feed.stale && feed.missedBatches > 0) {
    const remedy = feed.canReplay
      ? ''
      : '; name its replay endpoint under kv_events, so that it is asked for them';
    warnings.push(
      `${feed.missedBatches} batches of KV events of ${who} were missed: what it has cached is not fully known${remedy}`,
    );
  }
  const { timed_out: silent, failed: refused } = feed.replays;
  const isExplained = feed.missedBatches + silent + refused + undecodable > 0;
  if (feed.stale && !isExplained) {
    const why = feed.restored
      ? 'come from a copy that was not exact'
      : 'were forgotten while its engine may have lived on';
    const remedy = feed.canReplay
      ? 'it is asked for all it holds'
      : 'name its replay endpoint under kv_events, so that it is asked for all it holds';
    warnings.push(`the blocks of ${who} ${why}: what it has cached is not fully known; ${remedy}`);
  }
  if (feed.stale && silent + refused > 0) {
    warnings.push(
      `${who} was asked ${silent + refused} times in vain for KV events that were missed; check its replay endpoint`,
    );
  }
  if (feed.partial) {
    warnings.push(
      `${who} no longer holds its first KV events: it may have cached more than is known, until it clears or starts anew`,
    );
  }
  return warnings;
}

function blockSizeWarnings({ workers, blockSizeOf }: ReadinessFacts): string[] {
  return workers.flatMap((worker) => {
    const { spec } = worker;
    const expected = blockSizeOf(spec.model);
    const own = saidBlockSize(worker);
    if (own === null || expected === null || expected % own === 0) return [];
    return [
      `worker ${spec.id} advertises blocks of ${own} tokens, but model ${spec.model} has ${expected}: nothing it caches is found`,
    ];
  });
}

/** Without exact ids, or with slow ones, routing is worse than configured. */
function tokenWarnings({ config, tokenNotes }: ReadinessFacts): string[] {
  return [...config.models.keys()].flatMap((model) =>
    (tokenNotes?.(model) ?? []).map((note) => `model ${model} ${note}`),
  );
}

/** Told above in words of their own. */
const TOLD: ReadonlySet<FindingCode> = new Set<FindingCode>([
  'not_connected',
  'events_off',
  'block_size',
  'event_gaps',
]);

function parityWarnings({ parity, subscriptions }: ReadinessFacts): string[] {
  if (subscriptions === null) return [];
  const findings = parity?.() ?? [];
  return findings
    .filter(({ code }) => !TOLD.has(code))
    .map(({ remedy, sentence }) => `${sentence}; ${remedy}`);
}

/** Hints are sent only to ranks that advertise `router_hint`: where none does, their policies never run. */
function hintWarnings(facts: ReadinessFacts): string[] {
  const { starting, workers, roles } = facts;
  const ready = servingOf(workers).filter((worker) => isReady(worker, facts));
  if (starting) return [];
  return roles.flatMap(({ role, hints }) => {
    const ofRole = ready.filter(({ spec }) => spec.role === role);
    const isRead = ofRole.some(({ capabilities }) =>
      [...(capabilities?.ranks.values() ?? [])].some((rank) => rank.routerHint),
    );
    if (hints.length === 0 || ofRole.length === 0 || isRead) return [];
    const names = hints.map(({ name }) => name).join(', ');
    return [
      `nobody reads the hints of ${names}: no ready worker of role ${role} advertises router_hint, so these policies never run`,
    ];
  });
}
