// Whether the index may take more, by names and by bytes. While the cap is far, bytes are added up only now and then; near it, what
// an event would make arrays grow by is reckoned before it is let in. At the cap arrays grow no more: what is taken away makes room.
import { PointsmanError } from '../../plugin/index.ts';

/** Bytes by which the arrays can grow at once, and bytes per name beyond that, rounded up. */
const GROWTH_AT_ONCE = 2 ** 20;
const BYTES_PER_NAME = 1024;
/** Share of the bytes that only tables grow into: these follow how names spread over owners, and cannot be kept from growing. */
const RESERVE_SHARE = 16;
const MOST_RESERVE = 2 ** 25;
/** Share of the bytes from which on names become fewer when tables grow nevertheless: these do not shrink at once. */
const YIELD_SHARE = 32;
/** By so many times the share that the arrays have grown beyond the cap nevertheless, names become fewer. */
const YIELD = 4;

/** The index as it is now. */
export interface IndexSize {
  /** Names of all owners. */
  readonly names: number;
  /** Runs of rows that are sure to be had; a name needs one at most. */
  readonly runs: number;
  /** Bytes of all arrays; adds them up. */
  bytes(): number;
  /** Bytes that so many more names add at most. */
  growth(names: number): number;
  /** Whether so many more names fit into what there is, tables left out. */
  fits(names: number): boolean;
}

/** Caps of an index. */
export class IndexRoom {
  readonly #maxHoldings: number;
  readonly #maxBytes: number;
  readonly #yieldFrom: number;
  readonly #growTo: number;
  /** Names that may come before bytes are looked at. */
  #unlooked = 0;
  /** Whether arrays may grow. */
  #grows = true;
  /** Names there may be while there are more bytes than may be, and how many bytes there were when last they grew. */
  #full = Number.POSITIVE_INFINITY;
  #fullBytes = 0;

  constructor(maxHoldings: number, maxBytes: number) {
    this.#maxHoldings = maxHoldings;
    this.#maxBytes = maxBytes;
    this.#yieldFrom = maxBytes - Math.min(MOST_RESERVE, maxBytes / YIELD_SHARE);
    this.#growTo = this.#yieldFrom - Math.min(MOST_RESERVE, maxBytes / RESERVE_SHARE);
  }

  /** Whether arrays may grow. */
  get grows(): boolean {
    return this.#grows;
  }

  /** Whether an event of so many names can never have room. */
  isTooLarge(added: number): boolean {
    return added > this.#maxHoldings;
  }

  /**
   * Whether there is no room for `added` more names.
   * @param isPressing whether names were evicted for these already: then what the index is to become fewer by may wait.
   */
  lacks(size: IndexSize, added: number, isPressing = false): boolean {
    if (size.names + added > this.#maxHoldings || size.runs < added) return true;
    if (added <= this.#unlooked) {
      this.#unlooked -= added;
      return false;
    }
    const bytes = size.bytes();
    const left = this.#growTo - bytes - size.growth(added);
    if (left >= 0) {
      this.#grows = true;
      this.#unlooked = Math.max(0, Math.floor((left - GROWTH_AT_ONCE) / BYTES_PER_NAME));
      return false;
    }
    this.#grows = false;
    if (bytes <= this.#yieldFrom) {
      this.#full = Number.POSITIVE_INFINITY;
      this.#fullBytes = this.#yieldFrom;
    } else if (bytes > this.#fullBytes) {
      // Names moved between owners, or sets of holders became more.
      const share = (bytes - this.#fullBytes) / this.#maxBytes;
      this.#full = Math.min(this.#full, size.names * Math.max(0, 1 - YIELD * share));
      this.#fullBytes = bytes;
    }
    return (!isPressing && size.names + added > this.#full) || !size.fits(added);
  }

  /** @throws PM_KV_INDEX_FULL */
  refuse(size: IndexSize, added: number): never {
    const { names: held } = size;
    const cap = this.#maxHoldings;
    const bytes = size.bytes();
    const holds =
      held + added > cap
        ? `${held} of at most ${cap} engine hashes and has no room for ${added} more`
        : `${bytes} of at most ${this.#maxBytes} bytes and has no room for ${added} more engine hashes`;
    throw new PointsmanError(
      'PM_KV_INDEX_FULL',
      `the prefix index holds ${holds}; raise the cap or announce fewer blocks`,
      { details: { held, added, cap, bytes } },
    );
  }
}
