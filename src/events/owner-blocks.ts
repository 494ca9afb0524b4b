// What the applier remembers of one owner's blocks beside the index: which groups to leave out, what hashes mean, which blocks wait
// for their parent, and pages that are no whole blocks yet.
import type { GaugeSample } from '../observe/index.ts';
import { EventFilter } from './event-filter.ts';
import { HashMarks, type MarkBudget } from './hash-marks.ts';
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
  /** Bytes of the hashes and namespaces of all owners. */
  readonly allMarkBytes: number;
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
  allMarkBytes: 256 * 1024 * 1024,
  pages: 1024 * 1024,
  allPages: 4 * 1024 * 1024,
};

/** What all owners share. */
export interface SharedBudgets {
  readonly marks: MarkBudget;
  readonly orphans: OrphanBudget;
  readonly pages: PageBudget;
}

/** Bytes of what is kept of all owners beside the index, by part. */
export function sideBytes(owners: Iterable<OwnerBlocks>): GaugeSample[] {
  const bytes = { marks: 0, pages: 0, orphans: 0 };
  for (const { marks, orphans, pages } of owners) {
    bytes.marks += marks.bytes;
    bytes.orphans += orphans.bytes;
    bytes.pages += pages?.bytes ?? 0;
  }
  return Object.entries(bytes).map(([part, value]) => ({ labels: { part }, value }));
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
    this.marks = new HashMarks(limits.markedHashes, budgets.marks);
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
