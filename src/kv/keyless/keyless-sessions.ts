// Tells conversations without any id apart by their prompts: the next turn of one repeats its last prompt and goes on. What many
// conversations begin with, system prompt and tools, says nothing; that part is learnt from the conversations themselves.
//
// Every block of a prompt notes which conversation had it last. A prompt is a conversation's next turn where it repeats the last prompt of
// that conversation, but for a little at its end, beyond what it shares with others. Everything else begins a new conversation.
import type { HashPairs } from '../hashing/types.ts';
import { BlockOwners, MOVED_PER_BLOCK } from './block-owners.ts';
import { Conversations } from './conversations.ts';

/** Ids begin with a control character, which no header and no checked body member can hold: clients cannot forge one. */
export const KEYLESS_PREFIX = '\u0001kl:';

/**
 * A next turn repeats all of the last prompt but this part of it, and one block: templates and agents write the end of a turn anew. On
 * recorded agents 98 % of turns repeat 99 %, and nearly all others no more than the common beginning (docs/session-identity.md).
 */
const REWRITTEN_PART = 1 / 64;
const REWRITTEN_BLOCKS = 1;

const LAST_STAMP = 0xffff_fffe;
const FNV_PRIME = 0x0100_0193;

/** Bounds. */
export interface KeylessLimits {
  /** Of the blocks' table, and of a second one that it is taken over to now and then. */
  readonly maxBytes: number;
  /** 1 to 65,536; the one unused for longest makes room. */
  readonly maxConversations: number;
  /** A conversation is forgotten when nothing came of it for so long, ms. */
  readonly ttlMs: number;
}

/** Conversations of a router. One call per request, O(blocks), without an allocation per block. */
export class KeylessSessions {
  readonly #limits: KeylessLimits;
  readonly #idsBegin: string;
  readonly #conversations: Conversations;
  readonly #owners: BlockOwners;
  /** Blocks that a conversation has. */
  #live = 0;
  #stamp = 0;
  #opened = 0;
  #low = 0;
  #high = 0;

  /** @param run of printable characters; ids given under different ones never meet. Empty = there is no other. */
  constructor(limits: KeylessLimits, run = '') {
    this.#limits = limits;
    this.#idsBegin = run === '' ? KEYLESS_PREFIX : `${KEYLESS_PREFIX}${run}:`;
    this.#conversations = new Conversations(limits.maxConversations);
    this.#owners = new BlockOwners(limits.maxBytes / 2);
  }

  /** Conversations that are known. */
  get count(): number {
    return this.#conversations.count;
  }

  /** Bytes of the blocks' table. */
  get bytes(): number {
    return this.#owners.bytes;
  }

  /**
   * The conversation that a prompt belongs to, known or new; null where the prompt has nothing of its own, because it is shorter than a
   * block or all of it is common, or where it is too long for the table. The same prompt again is the same conversation.
   * @param scope prompts of different scopes never meet.
   * @param sequence sequence hashes of its full blocks.
   * @param now ms of the clock.
   */
  nameOf(scope: string, sequence: HashPairs, now: number): string | null {
    this.#expire(now);
    const blocks = sequence.length / 2;
    if (blocks === 0 || blocks > this.#owners.mostBlocks) return null;
    this.#owners.move(MOVED_PER_BLOCK * blocks, this.#isOwned);
    this.#mix(scope);
    const known = this.#find(sequence, blocks);
    if (known < 0 && this.#isCommon(sequence, blocks)) return null;
    if (this.#stamp >= LAST_STAMP) this.#forgetAll();
    this.#stamp += 1;
    const conversation = this.#stamp === 1 || known < 0 ? this.#open(now) : known;
    this.#conversations.use(conversation, now);
    this.#makeRoom(blocks, conversation);
    this.#note(sequence, blocks, conversation);
    return this.#conversations.ids[conversation] ?? null;
  }

  /** The conversation whose last chain a prompt goes on from; −1 = none. */
  #find(sequence: HashPairs, blocks: number): number {
    const owners = this.#owners;
    const { last, length } = this.#conversations;
    for (let at = blocks - 1; at >= 0; at -= 1) {
      const place = this.#placeOf(sequence, at);
      if (place < 0 || !this.#isLive(place)) continue;
      // Nothing before a common block is anybody's own.
      if (owners.isSharedAt(place)) return -1;
      const owner = owners.ownerAt(place);
      // Of an older chain, which the conversation has left.
      if (owners.stampAt(place) !== last[owner]) continue;
      const rewritten = Math.max(REWRITTEN_BLOCKS, Math.floor(length[owner]! * REWRITTEN_PART));
      return at + 1 + rewritten >= length[owner]! ? owner : -1;
    }
    return -1;
  }

  /** Whether others have had every block. A chain whose last block is common is common. */
  #isCommon(sequence: HashPairs, blocks: number): boolean {
    const place = this.#placeOf(sequence, blocks - 1);
    return place >= 0 && this.#isLive(place) && this.#owners.isSharedAt(place);
  }

  #open(now: number): number {
    const conversations = this.#conversations;
    if (conversations.isFull) this.#forget(conversations.oldest);
    const id = `${this.#idsBegin}${this.#opened.toString(36)}`;
    this.#opened += 1;
    return conversations.open(id, this.#stamp, now);
  }

  /** Every block of the chain is the conversation's now, and common if it was another's. */
  #note(sequence: HashPairs, blocks: number, conversation: number): void {
    const owners = this.#owners;
    const conversations = this.#conversations;
    const stamp = this.#stamp;
    for (let at = 0; at < blocks; at += 1) {
      const place = this.#placeOf(sequence, at);
      if (place < 0) {
        owners.insert(
          (sequence[2 * at]! ^ this.#low) >>> 0,
          (sequence[2 * at + 1]! ^ this.#high) >>> 0,
          conversation,
          stamp,
        );
        this.#own(conversation, 1);
      } else if (this.#isLive(place)) {
        const before = owners.ownerAt(place);
        owners.set(place, conversation, owners.isSharedAt(place) || before !== conversation, stamp);
        this.#own(before, -1);
        this.#own(conversation, 1);
      } else {
        owners.set(place, conversation, false, stamp);
        this.#own(conversation, 1);
      }
    }
    conversations.last[conversation] = stamp;
    conversations.length[conversation] = blocks;
  }

  #own(conversation: number, blocks: number): void {
    this.#conversations.blocks[conversation]! += blocks;
    this.#live += blocks;
  }

  /** Makes room for a chain; the conversations unused for longest go first, never the one it is for. */
  #makeRoom(blocks: number, conversation: number): void {
    if (!this.#owners.lacks(blocks)) return;
    const { born } = this.#conversations;
    const most = this.#owners.mostBlocks;
    while (this.#live + blocks > most && this.#conversations.oldest !== conversation)
      this.#forget(this.#conversations.oldest);
    // Its earlier chains alone are too many: they go, and with them what was common.
    if (this.#live + blocks > most) {
      born[conversation] = this.#stamp;
      this.#own(conversation, -this.#conversations.blocks[conversation]!);
    }
    this.#owners.rebuild(this.#isOwned, this.#live, blocks);
  }

  #expire(now: number): void {
    const conversations = this.#conversations;
    while (conversations.count > 0 && now - conversations.seenAt(conversations.oldest) >= this.#limits.ttlMs)
      this.#forget(conversations.oldest);
  }

  #forget(conversation: number): void {
    this.#live -= this.#conversations.blocks[conversation]!;
    this.#conversations.close(conversation);
  }

  #forgetAll(): void {
    while (this.#conversations.count > 0) this.#forget(this.#conversations.oldest);
    this.#owners.clear();
    this.#stamp = 0;
  }

  #isLive(place: number): boolean {
    const owners = this.#owners;
    return this.#isOwned(owners.ownerAt(place), owners.stampAt(place));
  }

  readonly #isOwned = (owner: number, stamp: number): boolean => stamp >= this.#conversations.born[owner]!;

  #placeOf(sequence: HashPairs, at: number): number {
    return this.#owners.find(
      (sequence[2 * at]! ^ this.#low) >>> 0,
      (sequence[2 * at + 1]! ^ this.#high) >>> 0,
    );
  }

  /** Two FNV-1a hashes of a scope, from different beginnings. */
  #mix(scope: string): void {
    let low = 0x811c_9dc5;
    let high = 0x9747_b28c;
    for (let at = 0; at < scope.length; at += 1) {
      const unit = scope.charCodeAt(at);
      low = Math.imul(low ^ unit, FNV_PRIME);
      high = Math.imul(high ^ (unit + at), FNV_PRIME);
    }
    this.#low = low;
    this.#high = high;
  }
}
