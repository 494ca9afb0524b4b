// Whether the index may take more, by names and by bytes. While the cap is far, bytes are added up only now and then; near it, what
// an event would make arrays grow by is reckoned before it is let in.
import { PointsmanError } from '../../plugin/index.ts';

/** Bytes by which the arrays can grow at once, and bytes per name beyond that, rounded up. */
const GROWTH_AT_ONCE = 2 ** 20;
const BYTES_PER_NAME = 1024;

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
}

/** Caps of an index. */
export class IndexRoom {
  readonly #maxHoldings: number;
  readonly #maxBytes: number;
  /** Names that may come before bytes are looked at. */
  #unlooked = 0;
  /** Names there were when the arrays could grow no more, and their bytes then. */
  #full = 0;
  #fullBytes = 0;

  constructor(maxHoldings: number, maxBytes: number) {
    this.#maxHoldings = maxHoldings;
    this.#maxBytes = maxBytes;
  }

  /** Whether there is no room for `added` more names. */
  lacks(size: IndexSize, added: number): boolean {
    if (size.names + added > this.#maxHoldings || size.runs < added) return true;
    if (added <= this.#unlooked) {
      this.#unlooked -= added;
      return false;
    }
    const bytes = size.bytes();
    const left = this.#maxBytes - bytes - size.growth(added);
    if (left >= 0) {
      this.#unlooked = Math.max(0, Math.floor((left - GROWTH_AT_ONCE) / BYTES_PER_NAME));
      return false;
    }
    // Rows that were given back take as many names again; when they take fewer and arrays grow nevertheless, that many is the most.
    if (bytes > this.#fullBytes) {
      this.#full = size.names;
      this.#fullBytes = bytes;
    }
    return size.names + added > this.#full || bytes > this.#maxBytes;
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
