// From the evidence of one rank to findings. Pure: what counts as enough evidence comes in, so that a doctor that asks and a router
// that only listens judge by the same rules.
import type { EventFeed } from '../events/index.ts';
import type { Finding, FindingSubject } from './finding.ts';
import { findingOf } from './finding.ts';
import type { RankCounts } from './rank-counts.ts';
import type { RankEvidence } from './rank-evidence.ts';
import type { VerdictCounts } from './verdict-counts.ts';

/** How much it takes. */
export interface EvidenceNeeded {
  /** Prompts that must show the same. */
  readonly prompts: number;
  /** Batches that must name another rank. */
  readonly batches: number;
  /** Blocks that must be announced twice. */
  readonly duplicateBlocks: number;
  /** First blocks of prompts that must have other hashes than elsewhere. */
  readonly roots: number;
  /** Single-token pages. */
  readonly pages: number;
}

/** A router that listens to traffic. */
export const NEEDED_LISTENING: EvidenceNeeded = {
  prompts: 3,
  batches: 3,
  duplicateBlocks: 16,
  roots: 2,
  pages: 16,
};

/** A doctor whose prompts are made to show it. */
export const NEEDED_ASKING: EvidenceNeeded = {
  prompts: 1,
  batches: 1,
  duplicateBlocks: 2,
  roots: 1,
  pages: 2,
};

/** Share of stored blocks that engines announce again although they hold them, by which it is a habit and no coincidence. */
const DUPLICATE_SHARE = 0.4;

/** Everything known of a rank. */
export interface RankFacts {
  readonly subject: FindingSubject;
  readonly evidence: RankEvidence;
  readonly verdicts: VerdictCounts;
  /** Null = none of its events was heard. */
  readonly feed: EventFeed | null;
  /** Tokens per block of its model; null = not known. */
  readonly blockSize: number | null;
  /** The rank's number. */
  readonly rank: number;
  readonly ranks: RankCounts;
  /** Where it publishes; null = nobody said. */
  readonly endpoint: string | null;
  /** Null = KV events are not read. */
  readonly connected: boolean | null;
  /** Whether its worker answers requests. */
  readonly answers: boolean;
  /** Requests of its worker for which it computed new blocks. */
  readonly unheard: number;
  readonly replay: string | null;
  /** Prompts in a row of which it has blocks, answered without a word on cached tokens. */
  readonly unreported: number;
  readonly needed: EvidenceNeeded;
}

/** Dialects of engines that have no KV events to publish: what they cache is always estimated. They know no cache salts either. */
export const WITHOUT_EVENTS: ReadonlySet<string> = new Set(['llamacpp']);

/** What differs. */
export function rankFindings(facts: RankFacts): Finding[] {
  return [
    ...streamFindings(facts),
    ...countFindings(facts),
    ...eventFindings(facts),
    ...promptFindings(facts),
    ...reportFindings(facts),
  ];
}

/** Ranks that the engine says it has, or that its batches name, and that nobody configured. */
function countFindings({ evidence, needed, rank, ranks, subject }: RankFacts): Finding[] {
  const { count, described, first } = ranks;
  // Told once, of the first one.
  if (described !== null && described !== count && rank === first)
    return [findingOf('ranks', subject, { found: described, expected: count, problem: 'it says so itself' })];
  const [other, batches] = mostOther(evidence.ranks, rank);
  if (batches < needed.batches || isAmong(other, ranks)) return [];
  const problem = `its KV events name rank ${other}`;
  return [findingOf('ranks', subject, { found: Math.max(other + 1, count), expected: count, problem })];
}

/** Without them the audit of predictions sees nothing: it would be silent whatever happens. */
function reportFindings({ needed, subject, unreported }: RankFacts): Finding[] {
  if (unreported < needed.prompts) return [];
  const prompts = unreported === 1 ? '1 prompt' : `${unreported} prompts`;
  const problem = `nothing was said of ${prompts} of which it had announced blocks`;
  return [findingOf('cached_not_reported', subject, { problem })];
}

function streamFindings(facts: RankFacts): Finding[] {
  const { answers, connected, endpoint, feed, needed, replay, subject, unheard } = facts;
  if (connected === null || !answers) return [];
  if (endpoint === null) {
    return unheard < needed.prompts || WITHOUT_EVENTS.has(subject.dialect)
      ? []
      : [findingOf('events_off', subject, { problem: 'nobody says where' })];
  }
  if (!connected && feed === null) return [findingOf('not_connected', subject, { endpoint })];
  if (feed === null) {
    const isSilent = facts.verdicts.of('silent') >= needed.prompts || unheard >= needed.prompts;
    return isSilent
      ? [findingOf('events_off', subject, { problem: `${endpoint} is connected and silent` })]
      : [];
  }
  const findings: Finding[] = [];
  // An engine that is asked for its events keeps those that were not asked for, and no others.
  if (endpoint.startsWith('http')) {
    if (feed.stale && feed.missedBatches > 0)
      findings.push(findingOf('event_gaps', subject, { found: feed.missedBatches }));
    return findings;
  }
  // It was heard once, or its replay endpoint answers: what it computes now is announced to nobody here.
  const silent = facts.verdicts.of('silent');
  if (silent >= needed.prompts && silent > facts.verdicts.of('agreed'))
    findings.push(findingOf('events_off', subject, { problem: `${endpoint} says nothing of new blocks` }));
  if (replay === null) findings.push(findingOf('no_replay', subject, { problem: 'nobody says where' }));
  else if (feed.replays.timed_out + feed.replays.failed > 0 && feed.replays.answered === 0)
    findings.push(findingOf('no_replay', subject, { problem: `${replay} does not answer` }));
  if (feed.stale && feed.missedBatches > 0)
    findings.push(findingOf('event_gaps', subject, { found: feed.missedBatches }));
  return findings;
}

function eventFindings({ blockSize, evidence, feed, needed, rank, ranks, subject }: RankFacts): Finding[] {
  const findings: Finding[] = [];
  const found = feed?.mismatchedBlockSize ?? null;
  const pages = evidence.singleTokenStores;
  if (pages >= needed.pages && pages > evidence.otherStores) {
    findings.push(findingOf('page_size_1', subject, { expected: blockSize ?? 16 }));
  } else if (found !== null && blockSize !== null) {
    findings.push(findingOf('block_size', subject, { found, expected: blockSize }));
  }
  const [other, count] = mostOther(evidence.ranks, rank);
  if (count >= needed.batches && count > (evidence.ranks.get(rank) ?? 0) && isAmong(other, ranks))
    findings.push(findingOf('swapped_ranks', subject, { found: other }));
  if (evidence.otherGroups.size > 0)
    findings.push(
      findingOf('hybrid_groups', subject, { found: [...evidence.otherGroups].sort().join(', ') }),
    );
  const { duplicateBlocks, storedBlocks } = evidence;
  if (duplicateBlocks >= needed.duplicateBlocks && duplicateBlocks >= DUPLICATE_SHARE * storedBlocks)
    findings.push(findingOf('duplicate_stores', subject, { found: duplicateBlocks, expected: storedBlocks }));
  if (evidence.clockJumpMs !== 0)
    findings.push(findingOf('event_clock', subject, { found: Math.round(evidence.clockJumpMs / 1000) }));
  return findings;
}

function promptFindings({ evidence, feed, needed, subject, verdicts }: RankFacts): Finding[] {
  const findings: Finding[] = [];
  const isMany = (kind: Parameters<VerdictCounts['of']>[0]): boolean =>
    verdicts.of(kind) >= needed.prompts && verdicts.of(kind) > verdicts.of('agreed');
  // Blocks of another size make every prompt disagree: that is told as what it is.
  const isExplained = (feed?.mismatchedBlockSize ?? null) !== null;
  const { chain, lora, tokens } = verdicts.newest;
  if (verdicts.of('tokens') >= needed.prompts && !isExplained)
    findings.push(findingOf('template', subject, { problem: tokens ?? '' }));
  if (isMany('chain') && evidence.otherGroups.size === 0)
    findings.push(findingOf('hash_chain', subject, { found: chain?.found ?? 0, expected: chain?.of ?? 0 }));
  if (verdicts.of('lora') >= needed.prompts)
    findings.push(
      findingOf('lora_mismatch', subject, {
        expected: lora?.asked ?? 'none',
        found: lora?.found === null ? 'no adapter' : `adapter ${lora?.found ?? ''}`,
      }),
    );
  // Where no salts are known, nobody expects them to be kept apart.
  if (verdicts.of('salt') >= needed.prompts && !WITHOUT_EVENTS.has(subject.dialect))
    findings.push(findingOf('salt_ignored', subject));
  return findings;
}

function isAmong(rank: number, { count, first }: RankCounts): boolean {
  return rank >= first && rank < first + count;
}

function mostOther(ranks: ReadonlyMap<number, number>, own: number): readonly [number, number] {
  let most: readonly [number, number] = [-1, 0];
  // A batch that names no rank speaks for its connection's.
  for (const [rank, count] of ranks) if (rank !== own && rank >= 0 && count > most[1]) most = [rank, count];
  return most;
}
