// Watches what engines do against what the router believes: hears events and answers, samples prompts, and says what differs. It
// sends nothing but questions to replay endpoints; the doctor feeds it with prompts of its own.
import type { KvEventBatch } from '../events/index.ts';
import type { Worker } from '../fleet/index.ts';
import { blockHashSeed, type OwnerSlot } from '../kv/index.ts';
import { driftFindings } from './drift-findings.ts';
import { type Finding, type FindingSubject, findingOf } from './finding.ts';
import type { FindingCode } from './finding-table.ts';
import { lacksReport } from './missing-report.ts';
import type { AnsweredRequest, ParityMonitorOptions } from './parity-types.ts';
import type { Drift, PredictionAudit } from './prediction-audit.ts';
import { promptDepths } from './prompt-depths.ts';
import { judgePrompt } from './prompt-verdict.ts';
import { rankCounts } from './rank-counts.ts';
import { type RankFacts, rankFindings } from './rank-findings.ts';
import { checkReplay } from './replay-check.ts';
import { RootHashes } from './root-hashes.ts';
import { NO_CODES, newWatchedRank, REPLAY_AFTER, type WatchedRank } from './watched-rank.ts';
import { workerNames } from './worker-names.ts';

/** Prompts of a rank and a kind that wait to be judged at a time: others are not looked at. */
const MOST_WAITING = 4;
/** The same over all ranks: judging one takes about as long as a decision. */
const MOST_WAITING_OVER_ALL = 256;
/** A rank that has agreed so often is looked at seldom, until something else shows. */
const TRUSTED_AFTER = 64;
const TRUSTED_SKIP = 63;
/** Hashes of engines are compared at most so often, ms. */
const COMPARE_MS = 1000;
/** A replay endpoint is asked again after so many times as many live batches. */
const REPLAY_AGAIN = 64;
/** An engine is asked for the ids of one prompt of so many, and of the next one where they differed. */
const ASK_IDS_EVERY = 128;

/** Watches a fleet. */
export class ParityMonitor {
  readonly #options: ParityMonitorOptions;
  readonly #ranks = new Map<OwnerSlot, WatchedRank>();
  readonly #roots = new RootHashes();
  readonly #timers = new Set<() => void>();
  #seeds: ReadonlyMap<OwnerSlot, readonly OwnerSlot[]> = new Map();
  #seedsAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: ParityMonitorOptions) {
    this.#options = options;
    const { fleet, metrics } = options;
    fleet.listen({
      removed: ({ slots }) => {
        for (const slot of slots) this.#drop(slot);
      },
      restarted: ({ slots }) => {
        for (const slot of slots) this.restarted(slot);
      },
    });
    metrics.gauge('pointsman_parity_findings', () => {
      const counts = new Map<string, number>();
      for (const { code } of this.findings()) counts.set(code, (counts.get(code) ?? 0) + 1);
      return [...counts].map(([finding, value]) => ({ labels: { finding }, value }));
    });
    metrics.gauge('pointsman_prediction_drifts', () => {
      const counts = new Map<string, number>();
      for (const { audit } of this.#ranks.values()) {
        const kind = audit.drift()?.kind;
        if (kind !== undefined) counts.set(kind, (counts.get(kind) ?? 0) + 1);
      }
      return [...counts].map(([kind, value]) => ({ labels: { kind }, value }));
    });
  }

  /** A live message of a connection. */
  arrived(connection: OwnerSlot, sequence: number, timestamp: number | null): void {
    const rank = this.#rankOf(connection);
    rank.evidence.arrived(sequence, timestamp, this.#options.clock.now());
    if (rank.evidence.batches >= rank.replayDue) this.askReplay(connection);
  }

  /** A batch is applied. @param owner whose it is; @param connection on whose it came. */
  applied(owner: OwnerSlot, connection: OwnerSlot, batch: KvEventBatch): void {
    const { clock } = this.#options;
    this.#rankOf(connection).evidence.speaksFor(batch.rank ?? -1);
    this.#rankOf(owner).evidence.applied(batch.events, clock.now());
    this.#nameRoots(owner, batch);
  }

  /** The index forgot what an owner holds, as its stream is asked anew. */
  forgotten(owner: OwnerSlot): void {
    this.#ranks.get(owner)?.evidence.forgotten();
  }

  /** Another process speaks for an owner. */
  restarted(owner: OwnerSlot): void {
    const rank = this.#ranks.get(owner);
    this.#roots.forget(owner);
    if (rank === undefined) return;
    rank.evidence.restarted();
    rank.verdicts.clear();
    rank.audit.clear();
    rank.unreported = 0;
    rank.toAsk = 0;
    rank.replay = null;
    rank.replayDue = rank.evidence.batches + REPLAY_AFTER;
  }

  /** A request was answered. Prompts are judged once their events had time to come. */
  answered(request: AnsweredRequest): void {
    const { slot, blockSize, cachedTokens, predictedTokens, worker } = request;
    // It left while it answered: its slot is nobody's, or another's, of whom this says nothing.
    if (this.#options.fleet.slotWorkerId(slot) !== worker) return;
    const rank = this.#rankOf(slot);
    if (cachedTokens === null) {
      if (lacksReport(request, this.#options.fleet)) rank.unreported += 1;
    } else {
      rank.unreported = 0;
      if (predictedTokens !== null) rank.audit.add(predictedTokens, cachedTokens, blockSize);
    }
    const difference = this.#idsDiffer(request, rank);
    const kind = request.loraName !== null ? 2 : request.cacheSalt !== null ? 1 : 0;
    if (!request.isExact || this.#closed) return;
    if (rank.toSkip[kind] > 0 && difference === null) {
      rank.toSkip[kind] -= 1;
      return;
    }
    if (rank.waiting[kind] >= MOST_WAITING || this.#timers.size >= MOST_WAITING_OVER_ALL) return;
    rank.waiting[kind] += 1;
    rank.toSkip[kind] = rank.skip[kind];
    const { clock, settleMs } = this.#options;
    const cancel = clock.schedule(settleMs, () => {
      this.#timers.delete(cancel);
      rank.waiting[kind] -= 1;
      this.#judge(request, rank, kind, difference);
    });
    this.#timers.add(cancel);
  }

  /** Whether the engine is to be asked for the ids that it sees of the next prompt of a rank. */
  asksIds(slot: OwnerSlot): boolean {
    if (this.#options.asksIds?.() !== true) return false;
    const rank = this.#rankOf(slot);
    rank.toAsk -= 1;
    if (rank.toAsk >= 0) return false;
    rank.toAsk = ASK_IDS_EVERY;
    return true;
  }

  /** Asks a rank's replay endpoint for the newest batch, if one was heard. */
  askReplay(slot: OwnerSlot): void {
    const rank = this.#rankOf(slot);
    const { lastSequence: sequence, lastTimestamp: timestamp, batches } = rank.evidence;
    const replay = this.#options.replayOf(slot);
    rank.replayDue = Math.max(batches + REPLAY_AFTER, batches * REPLAY_AGAIN);
    if (replay === null || sequence < 0 || rank.cancelReplay !== null || this.#closed) return;
    rank.cancelReplay = checkReplay(replay, { sequence, timestamp }, (verdict) => {
      rank.cancelReplay = null;
      rank.replay = verdict;
      this.#review(slot);
    });
  }

  /** Whether a question to a replay endpoint, or a prompt, still waits for its answer. */
  get isBusy(): boolean {
    if (this.#timers.size > 0) return true;
    for (const { cancelReplay } of this.#ranks.values()) if (cancelReplay !== null) return true;
    return false;
  }

  /** What was found of a rank when it was looked at last. */
  codes(slot: OwnerSlot): readonly FindingCode[] {
    return this.#ranks.get(slot)?.codes ?? NO_CODES;
  }

  /** Whether what a rank announces is not what it is sent. */
  misleads(slot: OwnerSlot): boolean {
    return this.#ranks.get(slot)?.misleads ?? false;
  }

  /** What predictions of a rank come to; null = none was compared. */
  auditOf(slot: OwnerSlot): { readonly drift: Drift | null; readonly audit: PredictionAudit } | null {
    const audit = this.#ranks.get(slot)?.audit;
    return audit === undefined ? null : { audit, drift: audit.drift() };
  }

  /** Everything found, by worker and rank; looks at all ranks anew. */
  findings(): Finding[] {
    const seeds = this.#compared(0);
    return this.#options.fleet
      .workers()
      .flatMap((worker) => worker.slots.flatMap((slot, nth) => this.#look(worker, slot, nth, seeds)));
  }

  /** Ends its timers and questions. */
  close(): void {
    this.#closed = true;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    for (const { cancelReplay } of this.#ranks.values()) cancelReplay?.();
  }

  #look(
    worker: Worker,
    slot: OwnerSlot,
    nth: number,
    seeds: ReadonlyMap<OwnerSlot, readonly OwnerSlot[]>,
  ): Finding[] {
    const rank = this.#rankOf(slot);
    const facts = this.#factsOf(worker, slot, worker.spec.ranks.first + nth, rank);
    const findings = rankFindings(facts);
    const { subject } = facts;
    const others = seeds.get(slot);
    // Adapters that events do not name look like other hashes.
    const isMixed = findings.some(({ code }) => code === 'lora_mismatch') && this.#options.needed.roots > 1;
    if (others !== undefined && !isMixed)
      findings.push(findingOf('hash_seed', subject, { others: workerNames(others, this.#options.fleet) }));
    if (rank.replay?.kind === 'old') {
      const { problem } = rank.replay;
      findings.push(findingOf('replay_old', subject, { endpoint: facts.replay ?? '', problem }));
    } else if (rank.replay?.kind === 'none' && !findings.some(({ code }) => code === 'no_replay')) {
      findings.push(findingOf('no_replay', subject, { problem: `${facts.replay} does not answer` }));
    }
    const estimated = worker.approximate?.has(facts.rank) === true;
    findings.push(...driftFindings(facts, rank.audit, estimated, findings));
    const codes = findings.map(({ code }) => code);
    // Where only chats are affected, the events of other prompts are still worth hearing.
    const wrong = rank.verdicts.of('tokens');
    const misleads =
      codes.includes('hash_chain') || (codes.includes('template') && wrong > rank.verdicts.of('agreed'));
    if (codes.join() !== rank.codes.join() || misleads !== rank.misleads) {
      rank.codes = codes;
      rank.misleads = misleads;
      this.#options.changed?.(worker);
    }
    return findings;
  }

  #factsOf(
    worker: Worker,
    slot: OwnerSlot,
    number: number,
    { evidence, unreported, verdicts }: WatchedRank,
  ): RankFacts {
    const { answers, blockSizeOf, dialectOf, feed, needed, stream, unheard } = this.#options;
    const { id, model } = worker.spec;
    const subject: FindingSubject = { worker: id, rank: number, model, dialect: dialectOf(worker) };
    const said = stream(id, number);
    return {
      subject,
      evidence,
      verdicts,
      unreported,
      feed: feed(slot),
      blockSize: blockSizeOf(slot),
      rank: number,
      ranks: rankCounts(worker, this.#options.fleet),
      endpoint: said?.endpoint ?? null,
      connected: said?.connected ?? null,
      answers: worker.state !== 'gone' && answers(id),
      // Requests are counted per worker: with several ranks a silent one may simply have had none.
      unheard: worker.slots.length === 1 ? unheard(id) : 0,
      replay: said?.replay ?? null,
      needed,
    };
  }

  /** Where the engine's own ids part from the router's, in words; null = nowhere, or it was not asked. */
  #idsDiffer({ engineIds = null, isExact, slot, tokens }: AnsweredRequest, rank: WatchedRank): string | null {
    const { fleet, idsDiffer } = this.#options;
    const model = engineIds === null || !isExact ? undefined : fleet.workerOfSlot(slot)?.spec.model;
    if (engineIds === null || model === undefined) return null;
    const difference = idsDiffer?.(model, tokens, engineIds) ?? null;
    if (difference !== null) rank.toAsk = 0;
    return difference;
  }

  #judge(request: AnsweredRequest, rank: WatchedRank, kind: 0 | 1 | 2, difference: string | null): void {
    const { fleet, feed, index, metrics } = this.#options;
    const { slot } = request;
    const worker = fleet.workerOfSlot(slot);
    if (worker === null || this.#ranks.get(slot) !== rank) return;
    const isEstimated = worker.approximate?.has(fleet.slotRank(slot)) === true;
    const stream = feed(slot);
    const isExact = stream !== null && !stream.stale && !stream.partial && !stream.isRecovering;
    const verdict = judgePrompt(request, {
      difference,
      depths: isEstimated ? null : promptDepths(request, this.#options),
      roots: rank.evidence.roots,
      since: request.sentAt,
      // Where the router's own index is full, it forgot blocks itself.
      evicted: rank.evidence.removedAt >= request.sentAt || index.lacksRoomFor(slot),
      isExact,
      hasUnsupported: (stream?.rejected.extra_keys ?? 0) > 0,
    });
    metrics.count('pointsman_parity_prompts_total', { verdict: verdict.kind });
    rank.verdicts.add(verdict, request.loraName);
    if (verdict.kind !== 'agreed') {
      rank.agreed = 0;
      rank.skip[kind] = 0;
    } else {
      rank.agreed += 1;
      rank.skip[kind] = rank.agreed < TRUSTED_AFTER ? 1 : TRUSTED_SKIP;
    }
    this.#review(slot);
  }

  #review(slot: OwnerSlot): void {
    const worker = this.#options.fleet.workerOfSlot(slot);
    if (worker !== null) this.#look(worker, slot, worker.slots.indexOf(slot), this.#compared(COMPARE_MS));
  }

  /** Whose hashes disagree; as it was found at most `withinMs` ago. */
  #compared(withinMs: number): ReadonlyMap<OwnerSlot, readonly OwnerSlot[]> {
    const { clock, needed } = this.#options;
    if (clock.now() - this.#seedsAt >= withinMs) {
      this.#seeds = this.#roots.disagreeing(needed.roots);
      this.#seedsAt = clock.now();
    }
    return this.#seeds;
  }

  #nameRoots(owner: OwnerSlot, { events }: KvEventBatch): void {
    const { fleet, hasher } = this.#options;
    for (const event of events) {
      if (event.kind !== 'stored' || event.parent !== null || event.tier !== 'device') continue;
      const { blockSize, external, loraName, cacheSalt, tokenIds } = event;
      if (loraName !== null || cacheSalt !== null || event.scope?.unsupported != null) continue;
      if (event.multimodal !== undefined || blockSize < 4 || tokenIds.length < blockSize) continue;
      const worker = fleet.workerOfSlot(owner);
      if (worker === null) continue;
      const { local } = hasher.hashPrompt(tokenIds.subarray(0, blockSize), blockSize, blockHashSeed({}));
      const group = `${worker.spec.model} ${this.#options.dialectOf(worker)} ${worker.capabilities?.hashScheme ?? ''}`;
      const engine = { slot: owner, worker: worker.spec.id };
      this.#roots.named(group, `${local[0]} ${local[1]}`, engine, external[0] ?? 0, external[1] ?? 0);
    }
  }

  #rankOf(slot: OwnerSlot): WatchedRank {
    let rank = this.#ranks.get(slot);
    if (rank === undefined) {
      rank = newWatchedRank();
      // Of who left nothing is kept that nobody would forget.
      if (this.#options.fleet.workerOfSlot(slot) !== null) this.#ranks.set(slot, rank);
    }
    return rank;
  }

  #drop(slot: OwnerSlot): void {
    this.#ranks.get(slot)?.cancelReplay?.();
    this.#ranks.delete(slot);
    this.#roots.forget(slot);
  }
}
