// Judges one answered prompt: does what the engine announced since make the blocks that the router hashes for it?
import { MOST_ROOTS, type StoredRoot } from './rank-evidence.ts';

/** A prompt that was answered, with what the engine said of it. */
export interface AnsweredPrompt {
  readonly tokens: Uint32Array;
  /** Tokens per block of its model. */
  readonly blockSize: number;
  readonly loraName: string | null;
  readonly cacheSalt: string | null;
  /** By the engine's account; null = it does not say. */
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  /** Nobody has sent it before: where the engine does not say what was cached, nothing was. */
  readonly isUnique?: boolean;
}

/** What the index holds of it on its rank, leading blocks. */
export interface PromptDepths {
  readonly own: number;
  /** Under no adapter and no salt. */
  readonly plain: number;
}

/** What is seen. */
export type PromptVerdict =
  /** Its blocks are known. */
  | { readonly kind: 'agreed' }
  /** Only its first blocks are, although nothing was evicted. */
  | { readonly kind: 'chain'; readonly found: number; readonly of: number }
  /** The engine counts other tokens, or stored others. */
  | { readonly kind: 'tokens'; readonly problem: string }
  /** Stored under another adapter; null = none. */
  | { readonly kind: 'lora'; readonly found: string | null }
  /** Stored, or found cached, without its salt. */
  | { readonly kind: 'salt' }
  /** Nothing was announced. */
  | { readonly kind: 'silent' }
  /** Nothing can be said: too short, evicted, or left out for a reason that is told elsewhere. */
  | { readonly kind: 'unclear' };

const UNCLEAR: PromptVerdict = { kind: 'unclear' };

/** Pages below this say too little about which prompt they are of. */
const LEAST_ROOT = 4;

/** What is known of the rank. */
export interface PromptContext {
  /** What the index holds of the prompt; null = it rests on estimates there, so only announced roots count. */
  readonly depths: PromptDepths | null;
  /** First blocks that the rank announced, oldest first. */
  readonly roots: readonly StoredRoot[];
  /** When the prompt was sent, ms. */
  readonly since: number;
  /** Whether blocks were evicted meanwhile. */
  readonly evicted: boolean;
  /** Whether its events were heard from the first, so that what it has cached was announced. */
  readonly isExact: boolean;
  /** Whether it names keys of blocks that are not understood, salts maybe: such blocks are left out. */
  readonly hasUnsupported?: boolean;
  /** Where ids that the engine told part from the router's; null or absent = nowhere, or it was not asked. */
  readonly difference?: string | null;
}

/** Judges a prompt. */
export function judgePrompt(
  prompt: AnsweredPrompt,
  { depths, difference = null, evicted, hasUnsupported = false, isExact, roots, since }: PromptContext,
): PromptVerdict {
  const { blockSize, cachedTokens, cacheSalt, loraName, promptTokens, tokens } = prompt;
  if (difference !== null) return { kind: 'tokens', problem: difference };
  if (promptTokens !== null && promptTokens !== tokens.length)
    return {
      kind: 'tokens',
      problem: `it counts ${promptTokens} tokens where the router has ${tokens.length}`,
    };
  const blocks = Math.floor(tokens.length / blockSize);
  if (blocks < 2) return UNCLEAR;
  const own = depths?.own ?? 0;
  if (own >= blocks - 1) return { kind: 'agreed' };
  if (own > 0) return evicted || !isExact ? UNCLEAR : { kind: 'chain', found: own, of: blocks };
  let isNew = false;
  let most = 0;
  let foreign: StoredRoot | null = null;
  // Newest first: a prompt may have been stored before under another scope.
  for (let at = roots.length - 1; at >= 0; at -= 1) {
    const root = roots[at];
    if (root === undefined || root.tokens.length < LEAST_ROOT) continue;
    const same = commonPrefix(root.tokens, tokens);
    if (same < root.tokens.length) {
      if (root.at >= since) {
        isNew = true;
        most = Math.max(most, same);
      }
      continue;
    }
    if (root.isUnsupported) return UNCLEAR;
    if (root.cacheSalt === cacheSalt && root.loraName === loraName)
      return depths === null ? { kind: 'agreed' } : UNCLEAR;
    if (root.at >= since) foreign ??= root;
  }
  const hits = (cachedTokens ?? 0) >= blockSize;
  if (hits && (depths?.plain ?? 0) > 0 && !hasUnsupported) {
    if (cacheSalt !== null) return { kind: 'salt' };
    if (loraName !== null) return { kind: 'lora', found: null };
  }
  if (hits) {
    if (!isExact || evicted || hasUnsupported) return UNCLEAR;
    return {
      kind: 'tokens',
      problem: `it has ${cachedTokens} tokens of a prompt cached of which it announced no block`,
    };
  }
  // It computed the prompt anew, and everything that was stored since is at hand: nothing of it has the prompt's own scope.
  if (foreign !== null) {
    const isWhole = roots.length < MOST_ROOTS || (roots[0]?.at ?? since) < since;
    if (!isWhole) return UNCLEAR;
    if (foreign.loraName !== loraName) return { kind: 'lora', found: foreign.loraName };
    return cacheSalt !== null && foreign.cacheSalt === null ? { kind: 'salt' } : UNCLEAR;
  }
  // Without a word on what was cached, it may all have been.
  if (cachedTokens === null && prompt.isUnique !== true) return UNCLEAR;
  if (isNew)
    return { kind: 'tokens', problem: `its blocks differ from the router’s tokens at position ${most}` };
  return evicted ? UNCLEAR : { kind: 'silent' };
}

function commonPrefix(a: Uint32Array, b: Uint32Array): number {
  const most = Math.min(a.length, b.length);
  let same = 0;
  while (same < most && a[same] === b[same]) same += 1;
  return same;
}
