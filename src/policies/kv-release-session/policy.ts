// Gives up the blocks of a session that is over, and of a branch that was abandoned when the conversation was compacted, as far as nobody
// else needs them.
import { z } from 'zod';
import {
  defineHintPolicy,
  type HintAction,
  type HintContext,
  type HintPolicyDefinition,
} from '../../plugin/index.ts';
import { Families, type Member, workerKey } from './families.ts';
import { firstOwnPosition, type NoBlocks, type ReleaseOf, releasableBlocks, whyNone } from './releasable.ts';

const EVICT = 'kv.evict@1.0';
/** As many as the action takes. */
const MOST_BLOCKS = 65_536;

const parameters = z.strictObject({
  on_compaction: z.boolean().default(true),
  own_blocks: z.boolean().default(true),
  tier: z.enum(['all', 'device']).default('all'),
  max_blocks: z.int().min(1).max(MOST_BLOCKS).default(MOST_BLOCKS),
});

/** Why an end, or the first turn after a compaction, is sent without an action. */
type Silence = 'no_lineage' | 'not_taken' | NoBlocks;

type Context = HintContext<'session-lineage' | 'cache'>;

/** `kv_release_session`: one eviction with a session's final request, and one with the first turn after a compaction. */
export const kvReleaseSession: HintPolicyDefinition = defineHintPolicy({
  type: 'kv_release_session',
  parameters,
  inputs: ['session-lineage', 'cache'],
  actions: [EVICT],
  create({ metrics, parameters: given }) {
    const families = new Families();

    const evict = (blocks: BigUint64Array, when: object, why: string): readonly HintAction[] => {
      metrics.count('released_sessions', 1, why);
      metrics.count('released_blocks', blocks.length, why);
      const tier = given.tier === 'device' ? { tier: 'device' } : {};
      return [{ type: 'kv.evict', version: '1.0', payload: { block_hashes: blocks, ...tier, ...when } }];
    };

    /** Gives nothing up, and counts why: a decision record says only that there was nothing. */
    const silent = (why: Silence): readonly HintAction[] => {
      metrics.count('silent_ends', 1, why);
      return [];
    };

    const ended = (release: ReleaseOf, context: Context): readonly HintAction[] => {
      const { blockSize, cache, promptTokens } = context;
      const first = firstOwnPosition(release);
      const blocks = releasableBlocks(release, first, given.max_blocks);
      // Blocks that this request computes are in no lineage yet; what it found was there before, so it is not among them.
      const start = Math.max(first, cache.deviceBlocks);
      const own = given.own_blocks && promptTokens >= (start + 1) * blockSize;
      if (blocks.length === 0 && !own) return silent(whyNone(release));
      const when = { execute_at: 'request_completion', ...(own && { current_request_block_start: start }) };
      return evict(blocks, when, 'final');
    };

    const afterCompaction = (release: ReleaseOf, { cache }: Context): readonly HintAction[] => {
      // The new conversation begins as the old one did: so much was found, and stays.
      const first = Math.max(firstOwnPosition(release), cache.deviceBlocks);
      const blocks = releasableBlocks(release, first, given.max_blocks);
      if (blocks.length === 0) return silent(whyNone(release));
      return evict(blocks, { execute_at: 'admission' }, 'compaction');
    };

    /** What a turn gives up. */
    const release = (context: Context, member: Member): readonly HintAction[] => {
      const { capabilities, lineage, session, worker } = context;
      const isCompaction = session?.compaction === true;
      const { compactedOn } = member;
      const isNext = compactedOn !== null && !isCompaction;
      member.compactedOn = given.on_compaction && isCompaction ? workerKey(worker) : null;
      const isFinal = session?.sessionFinal === true;
      if (!isFinal && !isNext) return [];
      if (lineage === null) return silent('no_lineage');
      // An engine that does not say what it takes is sent nothing.
      if (capabilities?.has(EVICT) !== true) return silent('not_taken');
      if (!isFinal && compactedOn !== workerKey(worker)) return silent('other_worker');
      const of = { member, relatives: families.others(member), worker, lineage };
      return isFinal ? ended(of, context) : afterCompaction(of, context);
    };

    return {
      buildHints(context: Context): readonly HintAction[] {
        const { blockSize, cache, promptTokens, session, worker } = context;
        if (session === null) return [];
        const promptBlocks = Math.floor(promptTokens / blockSize);
        const member = families.turn(session, worker, cache.deviceBlocks, promptBlocks);
        const actions = release(context, member);
        if (session.sessionFinal === true) families.end(member);
        metrics.gauge('sessions', families.sessions);
        return actions;
      },
    };
  },
});
