// What the applier remembers of one owner's blocks beside the index: which groups to leave out, what hashes mean, which blocks wait
// for their parent, and pages that are no whole blocks yet.
import { EventFilter } from './event-filter.ts';
import { HashMarks } from './hash-marks.ts';
import { type OrphanBudget, OrphanBuffer } from './orphan-buffer.ts';
import { type PageBudget, PageTable } from './page-table.ts';

/** Caps of what is remembered of blocks beside the index. */
export interface EventLimits {
  /** Blocks of one owner that wait for their parent. */
  readonly orphanBlocks: number;
  /** Bytes of them. */
  readonly orphanBytes: number;
  /** Bytes of the waiting blocks of all owners. */
  readonly allOrphanBytes: number;
  /** Engine hashes of one owner that carry a namespace, or on which nothing may hang. */
  readonly markedHashes: number;
  /** Pages of one owner that are smaller than the model's blocks. */
  readonly pages: number;
  /** Such pages of all owners; each takes about 70 bytes and its tokens. */
  readonly allPages: number;
}

/** The caps without settings: a worker of a million cached tokens fits. */
export const EVENT_LIMITS: EventLimits = {
  orphanBlocks: 16_384,
  orphanBytes: 16 * 1024 * 1024,
  allOrphanBytes: 64 * 1024 * 1024,
  markedHashes: 1024 * 1024,
  pages: 1024 * 1024,
  allPages: 4 * 1024 * 1024,
};

/** What all owners share. */
export interface SharedBudgets {
  readonly orphans: OrphanBudget;
  readonly pages: PageBudget;
}

/** State of one owner. */
export class OwnerBlocks {
  readonly filter = new EventFilter();
  readonly marks: HashMarks;
  readonly orphans: OrphanBuffer;
  /** Null while the owner stores whole blocks. */
  pages: PageTable | null = null;
  /** A replay was asked for since blocks began to wait. */
  replayAsked = false;
  readonly #limits: EventLimits;
  readonly #budgets: SharedBudgets;

  constructor(limits: EventLimits, budgets: SharedBudgets) {
    this.#limits = limits;
    this.#budgets = budgets;
    this.marks = new HashMarks(limits.markedHashes);
    this.orphans = new OrphanBuffer(limits.orphanBlocks, limits.orphanBytes, budgets.orphans);
  }

  /** The table for pages of a size; null when pages of another size are held. */
  pagesOf(pageSize: number, blockSize: number, bigrams: boolean): PageTable | null {
    const { pages } = this;
    if (pages !== null && pages.blockSize === blockSize && pages.bigrams === bigrams) {
      if (pages.pageSize === pageSize) return pages;
      if (pages.size > 0) return null;
    }
    pages?.clear('all');
    this.pages = new PageTable(pageSize, blockSize, bigrams, this.#limits.pages, this.#budgets.pages);
    return this.pages;
  }

  /** Forgets what rests on blocks; the index forgot them too. What hashes and groups mean is kept. */
  forgetBlocks(): void {
    this.orphans.clear('all');
    this.replayAsked = false;
    this.pages?.clear('all');
    this.pages = null;
  }
}
