// Asks the booked worker's engine to keep a session's blocks for as long as its next turn is awaited.
import { z } from 'zod';
import {
  defineHintPolicy,
  type HintAction,
  type HintContext,
  type HintPolicyDefinition,
} from '../../plugin/index.ts';
import { sessionName } from '../session-name.ts';
import { leadingBlocks } from './chain-cut.ts';
import { RetainedBudget } from './retained-budget.ts';
import { ttlParameter, ttlSource } from './ttl.ts';

const BLOCK_HASHES = 'kv.retain@1.0';
const TOKEN_RANGE = 'kv.retain@1.1';
/** As many as the action takes. */
const MOST_BLOCKS = 65_536;
/** Steps in which the priority falls along a chain. */
const BANDS = 4;

const parameters = z.strictObject({
  form: z.enum(['auto', 'block_hashes', 'token_range']).default('auto'),
  ttl: ttlParameter.default({ type: 'fixed', ms: 30_000 }),
  priority: z.int().min(1).max(100).default(50),
  last_priority: z.int().min(1).max(100).optional(),
  max_blocks: z.int().min(1).max(MOST_BLOCKS).default(8192),
  max_blocks_per_worker: z.int().min(1).optional(),
});

/** `kv_retain_session`: one declaration per turn, which takes the place of the session's earlier one. */
export const kvRetainSession: HintPolicyDefinition = defineHintPolicy({
  type: 'kv_retain_session',
  parameters,
  inputs: ['session-lineage'],
  actions: [BLOCK_HASHES, TOKEN_RANGE],
  create({ clock, metrics, parameters: given }) {
    const ttlOf = ttlSource(given.ttl, clock);
    const priorities = falling(
      given.priority,
      Math.min(given.priority, given.last_priority ?? given.priority),
    );
    const budget =
      given.max_blocks_per_worker === undefined ? null : new RetainedBudget(given.max_blocks_per_worker);
    const formOf = (capabilities: ReadonlySet<string> | null): string | null => {
      // An engine that does not say what it takes is sent nothing.
      const wanted = given.form === 'block_hashes' ? [BLOCK_HASHES] : [TOKEN_RANGE];
      if (given.form === 'auto') wanted.push(BLOCK_HASHES);
      return wanted.find((name) => capabilities?.has(name)) ?? null;
    };
    return {
      buildHints(context: HintContext<'session-lineage'>): readonly HintAction[] {
        const { capabilities, lineage, session, worker } = context;
        if (session === null) return [];
        // Learned from every turn, also where nothing is sent.
        const ttlMs = ttlOf(session);
        const name = sessionName(session);
        if (session.sessionFinal === true) budget?.forget(worker, name);
        const form = formOf(capabilities);
        // What was compacted is not used again, and nothing follows a final turn.
        if (form === null || ttlMs === null || session.sessionFinal === true || session.compaction === true)
          return [];
        const now = clock.now();
        const room = budget?.room(worker, name, now, given.max_blocks) ?? given.max_blocks;
        if (room === 0) return [];
        if (form === TOKEN_RANGE) {
          budget?.note(worker, name, Math.min(room, blocksOf(context)), now + ttlMs);
          metrics.count('retained_turns', 1, 'token_range');
          return [tokenRanges(context, priorities, room, ttlMs)];
        }
        if (lineage === null) return [];
        const blocks = leadingBlocks(lineage, session.sessionId, worker, room);
        if (blocks.length === 0) return [];
        budget?.note(worker, name, blocks.length, now + ttlMs);
        metrics.count('retained_turns', 1, 'block_hashes');
        return blockHashes(blocks, priorities, ttlMs);
      },
    };
  },
});

/** Blocks of the prompt, the last one counted in full. */
function blocksOf({ blockSize, promptTokens }: HintContext): number {
  return Math.ceil(promptTokens / blockSize);
}

/** Priorities along a chain, its beginning first: one, or as many as there are bands. */
function falling(first: number, last: number): readonly number[] {
  if (first === last) return [first];
  return Array.from({ length: BANDS }, (_, band) =>
    Math.round(first + ((last - first) * band) / (BANDS - 1)),
  );
}

/** One action per priority; in the list none comes before its parent, so that no chain rises. */
function blockHashes(
  blocks: BigUint64Array,
  priorities: readonly number[],
  ttlMs: number,
): readonly HintAction[] {
  const step = Math.ceil(blocks.length / priorities.length);
  return priorities.flatMap((priority, band) => {
    const block_hashes = blocks.subarray(band * step, (band + 1) * step);
    const payload = { block_hashes, priority, ttl_ms: ttlMs };
    return block_hashes.length === 0 ? [] : [{ type: 'kv.retain', version: '1.0', payload }];
  });
}

/** The request's own tokens with its answer, up to `room` blocks. */
function tokenRanges(
  context: HintContext,
  priorities: readonly number[],
  room: number,
  ttlMs: number,
): HintAction {
  const { blockSize, session } = context;
  const step = Math.ceil(Math.min(room, blocksOf(context)) / priorities.length) * blockSize;
  const directives = priorities.flatMap((priority, band) => {
    const start = band * step;
    const isLast = band === priorities.length - 1;
    const end = Math.min(isLast ? Number.POSITIVE_INFINITY : start + step, room * blockSize);
    if (end <= start) return [];
    return [{ start, ...(end < Number.POSITIVE_INFINITY && { end }), priority, duration: ttlMs / 1000 }];
  });
  return { type: 'kv.retain', version: '1.1', payload: { scope: session?.sessionId ?? null, directives } };
}
