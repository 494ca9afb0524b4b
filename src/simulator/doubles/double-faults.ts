// What is wrong with a protocol double on purpose: faults that engines and their operators really have, to be found through the wires
// alone. A double reads the ones that mean something to it.

/** Faults by name; absent = the double is well. */
export interface DoubleFaults {
  /** Says that its blocks have this many tokens; they keep their own size. */
  readonly announcedBlockSize?: number;
  /** Block hashes are of another seed at every start, as without PYTHONHASHSEED. */
  readonly randomHashSeed?: boolean;
  /** No KV event is ever published. */
  readonly eventsOff?: boolean;
  /** Its publisher was given a host by name, so that it connects there instead of listening. */
  readonly literalBindAddress?: boolean;
  /** Nothing is cached, and nothing announced. */
  readonly prefixCachingOff?: boolean;
  /** Chats are rendered by another template than the model's. */
  readonly otherTemplate?: boolean;
  /** Each rank publishes where another one should. */
  readonly swappedRanks?: boolean;
  /** Blocks are announced in a group of full attention and in one with a window, as by a hybrid model. */
  readonly hybridGroups?: boolean;
  /** Blocks are announced token by token. */
  readonly singleTokenPages?: boolean;
  /** One cache is served to all cache salts. */
  readonly saltIgnored?: boolean;
  /** Its replay endpoint knows of its first batch alone. */
  readonly oldReplay?: boolean;
  /** It offers no replay, whatever it was told. */
  readonly noReplay?: boolean;
  /** Its clock jumps by an hour after two batches. */
  readonly clockJump?: boolean;
  /** Every block is announced twice. */
  readonly duplicateStores?: boolean;
  /** Events do not name adapters. */
  readonly unnamedAdapters?: boolean;
}

/** A double without faults. */
export const NO_DOUBLE_FAULTS: DoubleFaults = {};

/** Reads one fault; null = its value is none. */
type ReadFault = (value: string | null) => DoubleFaults | null;

const flag =
  (faults: DoubleFaults): ReadFault =>
  (value) =>
    value === null ? faults : null;

const READERS: Readonly<Record<string, ReadFault>> = {
  'announced-block-size': (value) =>
    value !== null && /^[1-9][0-9]{0,5}$/.test(value) ? { announcedBlockSize: Number(value) } : null,
  'random-hash-seed': flag({ randomHashSeed: true }),
  'events-off': flag({ eventsOff: true }),
  'literal-bind-address': flag({ literalBindAddress: true }),
  'prefix-caching-off': flag({ prefixCachingOff: true }),
  'other-template': flag({ otherTemplate: true }),
  'swapped-ranks': flag({ swappedRanks: true }),
  'hybrid-groups': flag({ hybridGroups: true }),
  'page-size-1': flag({ singleTokenPages: true }),
  'salt-ignored': flag({ saltIgnored: true }),
  'old-replay': flag({ oldReplay: true }),
  'no-replay': flag({ noReplay: true }),
  'clock-jump': flag({ clockJump: true }),
  'duplicate-stores': flag({ duplicateStores: true }),
  'lora-mismatch': flag({ unnamedAdapters: true }),
};

/** Names of the faults as an option spells them. */
export const DOUBLE_FAULT_NAMES: readonly string[] = Object.keys(READERS);

/** The fault that an option spells, for example `events-off` or `announced-block-size=32`; null = there is no such. */
export function readDoubleFault(text: string): DoubleFaults | null {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  if (!Object.hasOwn(READERS, name)) return null;
  return READERS[name]?.(at < 0 ? null : text.slice(at + 1)) ?? null;
}
