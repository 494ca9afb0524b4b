// The session prefix index beside the prefix index: the path of a session against a look-up of the same blocks, a removal of 64 blocks
// among 16,384 sessions against the prefix index's own removal of them, and bytes per block. Both hold the same chains.
import {
  createBlockHasher,
  createPrefixIndex,
  type HashPairs,
  hashAt,
  type PrefixIndex,
  type SessionKey,
  SessionPrefixIndex,
  SessionUpdates,
  sessionKey,
} from '../src/kv/index.ts';
import { defineHintPolicy, type HintContext, type Rng, seededRng } from '../src/plugin/index.ts';
import type { BenchResult, BenchRow } from './bench-result.ts';
import { makeBenchRoad } from './bench-road.ts';
import { DECISION, makePrompts } from './decision-prompts.ts';
import { EVENT, engineHashes } from './index-workload.ts';
import { compare } from './interleaved.ts';
import { heapBytes, median } from './processor-time.ts';

const OWNERS = 16;
const SESSIONS = 16_384;
const SYSTEM_PROMPTS = 32;
/** Blocks that sessions of one system prompt share, and blocks of a session's own. */
const SHARED = 64;
const OWN = 64;
const BATCH = 64;
const LENGTHS = [128, 512, 2048];
/** Sessions of each length that paths are asked of, in turn. */
const ASKED = 64;
const ROUNDS = 400;
const WARM_UP = 200;
/** Decisions between which matches are applied, and how often they are made. */
const DECISIONS = 300;
const DECISION_ROUNDS = 41;
const DECISION_WARM_UP = 20;

const hasher = createBlockHasher();
const clock = { now: () => 0 };

/** A session and its chain on an owner. */
interface Talk {
  readonly key: SessionKey;
  readonly owner: number;
  readonly local: HashPairs;
  readonly sequence: HashPairs;
  readonly external: HashPairs;
}

interface Sides {
  readonly residency: PrefixIndex;
  readonly lineage: SessionPrefixIndex;
}

function randomPairs(rng: Rng, blocks: number): HashPairs {
  const pairs = new Uint32Array(2 * blocks);
  for (let i = 0; i < pairs.length; i++) pairs[i] = rng.integer(2 ** 32);
  return pairs;
}

function talks(count: number, blocks: number, seed: number): Talk[] {
  const rng = seededRng(seed);
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => randomPairs(rng, SHARED));
  return Array.from({ length: count }, (_, nth) => {
    const local = randomPairs(rng, blocks);
    local.set(systems[rng.integer(SYSTEM_PROMPTS)]!);
    const sequence = new Uint32Array(local.length);
    hasher.chain(null, local, sequence);
    const owner = nth % OWNERS;
    const key = sessionKey({ model: 'model', routingGroup: '' }, null, `session-${seed}-${nth}`);
    return { key, owner, local, sequence, external: engineHashes(sequence, owner, true) };
  });
}

function fill({ lineage, residency }: Sides, all: readonly Talk[]): void {
  for (const talk of all) {
    const { external, local, owner } = talk;
    for (let at = 0; at < local.length; at += 2 * EVENT) {
      const before = at === 0 ? null : hashAt(external, at / 2 - 1);
      const end = at + 2 * EVENT;
      residency.store(owner, 'device', before, external.subarray(at, end), local.subarray(at, end));
    }
    lineage.match(talk.key, talk.owner, talk.sequence);
  }
}

function pathRows(sides: Sides): BenchRow[] {
  return LENGTHS.flatMap((length) => {
    const asked = talks(ASKED, length, length);
    fill(sides, asked);
    let blocks = 0;
    const count = (path: HashPairs) => {
      blocks += path.length;
    };
    const [find, path, copy] = compare(
      [
        {
          name: 'find',
          once: (turn) => {
            const { local, sequence } = asked[turn % ASKED]!;
            blocks += sides.residency.find(local, sequence, ['device']).depthPerTier[0]![0]!;
          },
        },
        {
          name: 'path',
          once: (turn) => {
            const { key, owner } = asked[turn % ASKED]!;
            sides.lineage.forEachPath(key, owner, null, count);
          },
        },
        {
          name: 'copy',
          once: (turn) => {
            const { key, owner } = asked[turn % ASKED]!;
            blocks += sides.lineage.paths(key, owner)[0]!.length;
          },
        },
      ],
      { turns: 60, sliceNs: 1e6 },
    );
    if (blocks === 0) throw new Error('nothing was found');
    const name = `path of ${length} blocks`;
    const against = 'find of the same blocks';
    return [
      row(name, 'µs', path!.ns / 1000, 1 / path!.times, against),
      row(`${name}, to keep`, 'µs', copy!.ns / 1000, 1 / copy!.times, against),
      row(`find of ${length} blocks`, 'µs', find!.ns / 1000, null, null),
    ];
  });
}

/** Removals of the last blocks of sessions drawn at random, which come back before the next. */
function removalRows({ lineage, residency }: Sides, all: readonly Talk[]): BenchRow[] {
  const rng = seededRng(7);
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < ROUNDS + WARM_UP; round++) {
    const { external, key, local, owner, sequence } = all[rng.integer(all.length)]!;
    const from = sequence.length / 2 - BATCH;
    const ownFirst = round % 2 === 0;
    if (ownFirst) ours.push(timed(() => lineage.remove(owner, sequence.subarray(2 * from))));
    theirs.push(timed(() => residency.remove(owner, 'device', external.subarray(2 * from))));
    if (!ownFirst) ours.push(timed(() => lineage.remove(owner, sequence.subarray(2 * from))));
    if (lineage.paths(key, owner)[0]!.length !== 2 * from) throw new Error('the path did not recede');
    const before = hashAt(external, from - 1);
    residency.store(owner, 'device', before, external.subarray(2 * from), local.subarray(2 * from));
    lineage.match(key, owner, sequence);
  }
  const value = median(ours.slice(WARM_UP));
  const against = median(theirs.slice(WARM_UP));
  const name = `removal of ${BATCH} blocks among ${SESSIONS.toLocaleString('en-US')} sessions`;
  return [
    row(name, 'µs', value, against / value, 'the prefix index'),
    row(`${name}, prefix index`, 'µs', against, null, null),
  ];
}

/** Removals of a whole system prompt: all sessions behind it on the owner recede at once. */
function trunkRows({ lineage }: Sides, all: readonly Talk[]): BenchRow[] {
  const times: number[] = [];
  const moved: number[] = [];
  for (let round = 0; round < 40; round++) {
    const { owner, sequence } = all[round * 17]!;
    times.push(timed(() => moved.push(lineage.remove(owner, sequence.subarray(0, 2 * BATCH)))));
    for (const talk of all) if (talk.owner === owner) lineage.match(talk.key, owner, talk.sequence);
  }
  const name = `removal of ${BATCH} blocks that about ${median(moved)} sessions have on the owner`;
  return [row(name, 'µs', median(times.slice(8)), null, null)];
}

/** What a turn of a session costs: on the road only that its match is put into a queue; the rest later. */
function updateRows({ lineage, residency }: Sides, all: readonly Talk[]): BenchRow[] {
  const updates = new SessionUpdates({ index: lineage, residency, later: () => undefined });
  const rng = seededRng(9);
  const queued: number[] = [];
  const applied: number[] = [];
  for (let round = 0; round < ROUNDS + WARM_UP; round++) {
    const turns = Array.from({ length: ASKED }, () => all[rng.integer(all.length)]!);
    // Turns that grow by a few blocks: their sessions have frontiers before.
    for (const { key, owner, sequence } of turns) {
      lineage.finish(key);
      lineage.match(key, owner, sequence.subarray(0, sequence.length - 2 * EVENT));
    }
    const put = timed(() => {
      for (const { key, owner, sequence } of turns)
        updates.matched(key, owner, updates.versionOf(owner), sequence);
    });
    queued.push((put * 1000) / ASKED);
    applied.push(timed(() => updates.flush()) / ASKED);
  }
  if (updates.stats().refused > 0) throw new Error('a match was refused');
  const name = `match of ${SHARED + OWN} blocks`;
  return [
    row(`${name}, queued`, 'ns', median(queued.slice(WARM_UP)), null, null),
    row(`${name}, applied`, 'µs', median(applied.slice(WARM_UP)), null, null),
  ];
}

function memoryRows(all: readonly Talk[]): BenchRow[] {
  const heap = heapBytes();
  const arrays = process.memoryUsage().arrayBuffers;
  const lineage = new SessionPrefixIndex(clock);
  for (const talk of all) lineage.match(talk.key, talk.owner, talk.sequence);
  const onHeap = heapBytes() - heap;
  const held = process.memoryUsage().arrayBuffers - arrays + onHeap;
  const { bytes, nodes, sessions } = lineage.stats();
  return [
    row('memory, counted', 'bytes/block', bytes / nodes, null, null),
    row('memory, as the process grew', 'bytes/block', held / nodes, null, null),
    row('of it on the JavaScript heap', 'bytes/session', onHeap / sessions, null, null),
  ];
}

/** Whole decisions of a role whose hint policy declares the lineage, and may ask it, beside the same of one that does not. */
async function decisionRows(): Promise<BenchRow[]> {
  const prompts = makePrompts(seededRng(1));
  const make = async (kind: 'without' | 'declared' | 'asked') => {
    const definition = defineHintPolicy({
      type: 'watch',
      inputs: kind === 'without' ? [] : ['session-lineage'],
      create: () => ({
        buildHints(context) {
          if (kind === 'asked') ask(context);
          return [];
        },
      }),
    });
    return makeBenchRoad({
      prompts,
      workers: DECISION.workers,
      resident: DECISION.resident,
      records: false,
      takesHints: true,
      // Each prompt is that of one session.
      sessions: DECISION.prompts,
      hints: [{ definition }],
      lineage: kind !== 'without',
    });
  };
  let asked = 0;
  const ask = (context: object): void => {
    const { lineage, session, worker } = context as HintContext<'session-lineage'>;
    asked += lineage?.uniqueBlocks(session!.sessionId, worker).length ?? 0;
  };
  const [without, declared, asking] = await Promise.all([make('without'), make('declared'), make('asked')]);
  const kinds = [
    { name: 'decision of a session, lineage not declared', road: without },
    { name: 'decision of a session, lineage declared', road: declared },
    { name: 'decision of a session, blocks of the session asked for', road: asking },
  ].map((kind) => ({ ...kind, deciding: [] as number[], settling: [] as number[] }));
  let turn = 0;
  for (let round = -DECISION_WARM_UP; round < DECISION_ROUNDS; round++) {
    for (const { deciding, road, settling } of kinds) {
      const decided = processorMicros(() => {
        for (let nth = 0; nth < DECISIONS; nth++) road.decide(turn++);
      });
      const settled = processorMicros(() => road.settle());
      if (round < 0) continue;
      deciding.push(decided / DECISIONS);
      settling.push(settled / DECISIONS);
    }
  }
  if (asked === 0) throw new Error('no session had a block');
  const base = median(kinds[0]!.deciding);
  const rows = kinds.map(({ deciding, name, road }) =>
    row(
      name,
      'µs',
      median(deciding),
      road === without ? null : base / median(deciding),
      road === without ? null : 'not declared',
    ),
  );
  return [...rows, row('its match, applied in a later turn', 'µs', median(kinds[1]!.settling), null, null)];
}

/** Processor time of some work. */
function processorMicros(work: () => void): number {
  const start = process.cpuUsage();
  work();
  const { system, user } = process.cpuUsage(start);
  return user + system;
}

/** Microseconds. */
function timed(work: () => void): number {
  const start = performance.now();
  work();
  return (performance.now() - start) * 1000;
}

function row(
  name: string,
  unit: string,
  value: number,
  ratio: number | null,
  against: string | null,
): BenchRow {
  return { case: name, unit, value, ratio, against };
}

async function run(): Promise<BenchResult> {
  const all = talks(SESSIONS, SHARED + OWN, 1);
  const memory = memoryRows(all);
  const sides = { residency: createPrefixIndex({ hasher }), lineage: new SessionPrefixIndex(clock) };
  fill(sides, all);
  const removals = [...removalRows(sides, all), ...trunkRows(sides, all)];
  const rows = [...pathRows(sides), ...removals, ...updateRows(sides, all), ...memory];
  return {
    name: 'lineage',
    rows: [...rows, ...(await decisionRows())],
    notes: [
      `${SESSIONS} sessions on ${OWNERS} owners, each with ${SHARED} blocks of one of ${SYSTEM_PROMPTS} system prompts and ${OWN} of its own; engines have hashes of their own and announce ${EVENT} blocks at a time. Look-ups and paths: ${ASKED} more sessions of each length, in turn.`,
      'A path is all hashes, first block first, in an array that is used again, or in one to keep; a look-up answers depths. Aims: a path at most twice as long as a look-up, a removal at most twice as long as the prefix index’s, 64 bytes per block.',
      `Removals: the last ${BATCH} blocks of sessions drawn at random, back before the next; medians of ${ROUNDS}, both sides in turn.`,
      `Matches: the path is known but for the last ${EVENT} blocks; medians of ${ROUNDS} batches of ${ASKED}.`,
      `Decisions: those of the decision benchmark with a hint policy that sends nothing; each prompt is a session’s, ${DECISION.resident} blocks of it are matched, processor time. What is matched is applied in later turns, here once in ${DECISIONS} decisions. Aim: at most 1.15 times as long where lineage is declared.`,
      'Memory counts everything: blocks, frontiers, sessions and their ids.',
    ],
  };
}

export default { name: 'lineage', run };
