// Pages smaller than the model's blocks (SGLang with its default page size of 1) put together to blocks, for one owner. A block is
// in the index while all of its pages are on the tier; it goes by the engine hash of its last page.
import { type HashPairs, TIERS, type Tier, type U64, U64Map } from '../kv/index.ts';
import { PageRows } from './page-rows.ts';

const NONE = -1;
/** What a page's items take beside their hashes: an array's objects and an entry of a map. */
const ITEM_BYTES = 200;

/** A block that all pages are there of. */
export interface FullBlock {
  /** Engine hash of its last page. */
  readonly external: HashPairs;
  /** Engine hash of the last page of the block before; null at a root. */
  readonly parent: U64 | null;
  readonly tokenIds: Uint32Array;
  /** Items of all its pages in order; null for none. */
  readonly items: HashPairs | null;
}

/** What happens to blocks as their pages come and go. */
export interface BlockSink {
  complete(tier: Tier, block: FullBlock): void;
  broken(tier: Tier, external: HashPairs): void;
}

/** Pages of all owners, and the most there may be. */
export interface PageBudget {
  pages: number;
  readonly maxPages: number;
}

/** What became of a page: `conflict` = its hash stands for another page, which stays. */
export type PageOutcome = 'stored' | 'duplicate' | 'conflict' | 'full';

/** The pages of one owner. */
export class PageTable {
  /** Rows gone over since construction; tests read it to see that no event costs more than it should. */
  steps = 0;
  readonly pageSize: number;
  readonly blockSize: number;
  readonly bigrams: boolean;
  readonly #pagesPerBlock: number;
  readonly #rows: PageRows;
  readonly #byHash = new U64Map();
  readonly #items = new Map<number, HashPairs>();
  #itemBytes = 0;
  readonly #maxPages: number;
  readonly #budget: PageBudget;

  /**
   * @param blockSize tokens per block, a multiple of `pageSize`.
   * @param bigrams whether pages come with the token behind them.
   */
  constructor(pageSize: number, blockSize: number, bigrams: boolean, maxPages: number, budget: PageBudget) {
    this.pageSize = pageSize;
    this.blockSize = blockSize;
    this.bigrams = bigrams;
    this.#pagesPerBlock = blockSize / pageSize;
    this.#rows = new PageRows(bigrams ? pageSize + 1 : pageSize);
    this.#maxPages = maxPages;
    this.#budget = budget;
  }

  /** Pages held, those without a tier that others hang on included. */
  get size(): number {
    return this.#rows.live;
  }

  /** Bytes of the arrays, and of the items with their objects. */
  get bytes(): number {
    return this.#rows.bytes + this.#byHash.bytes + this.#itemBytes;
  }

  /** Whether a page lies on any tier. */
  knows(lo: number, hi: number): boolean {
    const row = this.#byHash.get(lo, hi);
    return row !== NONE && this.#rows.tiers(row) !== 0;
  }

  /** A page lies on a tier. Its parent must be known. */
  store(
    tier: Tier,
    parent: U64 | null,
    page: U64,
    tokens: Uint32Array,
    from: number,
    items: HashPairs | null,
    sink: BlockSink,
  ): PageOutcome {
    const rows = this.#rows;
    const before = parent === null ? NONE : this.#byHash.get(parent.lo, parent.hi);
    let row = this.#byHash.get(page.lo, page.hi);
    if (row !== NONE) {
      if (rows.parent(row) !== before || !rows.hasTokens(row, tokens, from)) return 'conflict';
    } else {
      if (rows.live >= this.#maxPages || this.#budget.pages >= this.#budget.maxPages) return 'full';
      const place = before === NONE ? 0 : (rows.place(before) + 1) % this.#pagesPerBlock;
      row = rows.add(before, place, page.lo, page.hi, tokens, from);
      this.#byHash.set(page.lo, page.hi, row);
      this.#budget.pages += 1;
      if (items !== null) this.#keepItems(row, items);
    }
    const bit = bitOf(tier);
    if ((rows.tiers(row) & bit) !== 0) return 'duplicate';
    rows.setTiers(row, rows.tiers(row) | bit);
    this.#eachFullBlock(row, bit, (last) => sink.complete(tier, this.#blockOf(last)));
    return 'stored';
  }

  /** A page left a tier, and with it the blocks it is part of; whether it was there. */
  remove(tier: Tier, lo: number, hi: number, sink: BlockSink): boolean {
    const row = this.#byHash.get(lo, hi);
    const bit = bitOf(tier);
    if (row === NONE || (this.#rows.tiers(row) & bit) === 0) return false;
    this.#eachFullBlock(row, bit, (last) => sink.broken(tier, this.#hashOf(last)));
    this.#rows.setTiers(row, this.#rows.tiers(row) & ~bit);
    this.#trim(row);
    return true;
  }

  /** Forgets the pages of a tier, or all; the index is cleared by the caller. */
  clear(tier: Tier | 'all'): void {
    const rows = this.#rows;
    const kept = tier === 'all' ? 0 : ~bitOf(tier);
    for (let row = 0; row < rows.used; row += 1) {
      if (rows.isLive(row)) rows.setTiers(row, rows.tiers(row) & kept & 15);
    }
    for (let row = 0; row < rows.used; row += 1) if (rows.isLive(row)) this.#trim(row);
  }

  /** Calls back with the last page of each block on a tier that has `row` among its pages. */
  #eachFullBlock(row: number, bit: number, visit: (last: number) => void): void {
    const rows = this.#rows;
    const last = this.#pagesPerBlock - 1;
    // Mostly the page is the newest of a block that is not full.
    if (rows.place(row) !== last && rows.firstChild(row) === NONE) return;
    for (let at = row; rows.place(at) !== 0; ) {
      at = rows.parent(at);
      this.steps += 1;
      if ((rows.tiers(at) & bit) === 0) return;
    }
    const open = [row];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      this.steps += 1;
      if (rows.place(at) === last) {
        visit(at);
        continue;
      }
      for (let child = rows.firstChild(at); child !== NONE; child = rows.nextSibling(child)) {
        this.steps += 1;
        if ((rows.tiers(child) & bit) !== 0) open.push(child);
      }
    }
  }

  #blockOf(last: number): FullBlock {
    const rows = this.#rows;
    const { pageSize, bigrams } = this;
    const tokenIds = new Uint32Array(this.blockSize + (bigrams ? 1 : 0));
    let row = last;
    let items: HashPairs | null = null;
    rows.copyTokens(last, rows.width, tokenIds, this.blockSize - pageSize);
    for (let place = this.#pagesPerBlock - 1; ; place -= 1) {
      if (row !== last) rows.copyTokens(row, pageSize, tokenIds, place * pageSize);
      const own = this.#items.get(row);
      if (own !== undefined) items = items === null ? own : joined(own, items);
      if (place === 0) break;
      row = rows.parent(row);
    }
    const before = rows.parent(row);
    const parent = before === NONE ? null : { lo: rows.lo(before), hi: rows.hi(before) };
    return { external: this.#hashOf(last), parent, tokenIds, items };
  }

  #keepItems(row: number, items: HashPairs): void {
    this.#items.set(row, items.slice());
    this.#itemBytes += ITEM_BYTES + items.byteLength;
  }

  #dropItems(row: number): void {
    const items = this.#items.get(row);
    if (items === undefined) return;
    this.#items.delete(row);
    this.#itemBytes -= ITEM_BYTES + items.byteLength;
  }

  #hashOf(row: number): HashPairs {
    return Uint32Array.of(this.#rows.lo(row), this.#rows.hi(row));
  }

  /** Gives back a page on no tier that nothing hangs on, and then those before it. */
  #trim(row: number): void {
    const rows = this.#rows;
    for (let at = row; at !== NONE && rows.tiers(at) === 0 && rows.firstChild(at) === NONE; ) {
      const before = rows.parent(at);
      this.#byHash.delete(rows.lo(at), rows.hi(at));
      this.#dropItems(at);
      rows.delete(at);
      this.#budget.pages -= 1;
      at = before;
    }
  }
}

function bitOf(tier: Tier): number {
  return 1 << TIERS.indexOf(tier);
}

/** Items of pages one after the other; one that both have, as where an image goes on, is meant once. */
function joined(first: HashPairs, second: HashPairs): HashPairs {
  const out = [...first];
  for (let at = 0; at < second.length; at += 2) {
    let isNew = true;
    for (let other = 0; other < first.length; other += 2) {
      if (first[other] === second[at] && first[other + 1] === second[at + 1]) isNew = false;
    }
    if (isNew) out.push(second[at]!, second[at + 1]!);
  }
  return Uint32Array.from(out);
}
