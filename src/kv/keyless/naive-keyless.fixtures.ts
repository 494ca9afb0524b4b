// The same as `KeylessSessions` without its tables: every conversation keeps its last chain, every block who had it. For comparison only.
import { KEYLESS_PREFIX } from './keyless-sessions.ts';

interface Conversation {
  readonly id: string;
  last: readonly string[];
  seenAt: number;
}

interface Block {
  owner: Conversation;
  shared: boolean;
}

/** Conversations, most of them at once, and how long they are kept. */
export class NaiveKeyless {
  readonly #most: number;
  readonly #ttlMs: number;
  #conversations: Conversation[] = [];
  readonly #blocks = new Map<string, Block>();
  #opened = 0;

  constructor(most: number, ttlMs: number) {
    this.#most = most;
    this.#ttlMs = ttlMs;
  }

  /** @param contents what its blocks hold. */
  nameOf(scope: string, contents: readonly number[], now: number): string | null {
    this.#conversations = this.#conversations.filter(({ seenAt }) => now - seenAt < this.#ttlMs);
    if (contents.length === 0) return null;
    const chain = contents.map((_, at) => JSON.stringify([scope, ...contents.slice(0, at + 1)]));
    const known = this.#known(chain);
    if (known === null && this.#block(chain.at(-1) ?? '')?.shared === true) return null;
    const conversation = known ?? this.#open(now);
    conversation.seenAt = now;
    conversation.last = chain;
    this.#conversations = [...this.#conversations.filter((other) => other !== conversation), conversation];
    for (const key of chain) {
      const before = this.#block(key);
      const shared = before !== undefined && (before.shared || before.owner !== conversation);
      this.#blocks.set(key, { owner: conversation, shared });
    }
    return conversation.id;
  }

  /** Of the conversations whose own blocks it repeats, the one it repeats most of, if that is nearly all of its last chain. */
  #known(chain: readonly string[]): Conversation | null {
    const own = chain.slice(chain.findLastIndex((key) => this.#block(key)?.shared === true) + 1);
    for (const key of own.toReversed()) {
      const owner = this.#block(key)?.owner;
      if (owner === undefined || !owner.last.includes(key)) continue;
      const repeated = chain.indexOf(key) + 1;
      const { length } = owner.last;
      return length - repeated <= Math.max(1, Math.floor(length / 64)) ? owner : null;
    }
    return null;
  }

  #block(key: string): Block | undefined {
    const block = this.#blocks.get(key);
    return block !== undefined && this.#conversations.includes(block.owner) ? block : undefined;
  }

  #open(now: number): Conversation {
    if (this.#conversations.length === this.#most) this.#conversations.shift();
    const opened = { id: `${KEYLESS_PREFIX}${this.#opened.toString(36)}`, last: [], seenAt: now };
    this.#opened += 1;
    this.#conversations.push(opened);
    return opened;
  }
}
