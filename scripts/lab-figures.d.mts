import type { FinishedLabCell, LabCell } from './lab-grid.d.mts';

export type LabFigure = 'ttft' | 'p99' | 'e2e' | 'resumed';

/** A cell's figure over another's. */
export interface LabRatio {
  readonly cell: LabCell;
  readonly value: number;
}

/** A policy's mean TTFT against the default. */
export interface LabMean {
  readonly policy: string;
  readonly ttft: number;
}

/** Policies with a change and without it. */
export interface LabOrders {
  readonly conditions: number;
  readonly without: readonly LabMean[];
  readonly with: readonly LabMean[];
}

/** What was aimed at. */
export interface LabAim {
  readonly name: string;
  readonly most: number;
  /** Null = it was not measured. */
  readonly value: number | null;
  readonly cells: number;
  readonly met: boolean | null;
  readonly misses: readonly LabRatio[];
}

/** Service levels at which capacity is read: name, figure, ms. */
export const LEVELS: Readonly<Record<string, readonly (readonly [string, LabFigure, number])[]>>;

export class LabResults {
  constructor(finished: readonly FinishedLabCell[]);
  readonly finished: readonly FinishedLabCell[];
  runOf(cell: LabCell): FinishedLabCell['run'] | null;
  select(words: Readonly<Record<string, unknown>>): LabCell[];
  ratios(cells: readonly LabCell[], figure: LabFigure, against: string | Partial<LabCell>): LabRatio[];
  overall(cells: readonly LabCell[], figure: LabFigure, against: string | Partial<LabCell>): number | null;
  boundOf(trace: string, timing: string): LabRatio[];
  capacity(trace: string, policy: string, figure: LabFigure, most: number): number | null | undefined;
  orders(study: string, plain: Partial<LabCell>): LabOrders;
}

/** One ratio per cell, the geometric mean over its seeds, with the number of them. */
export function overSeeds(ratios: readonly LabRatio[]): (LabRatio & { readonly seeds: number })[];
/** Geometric mean in which each load has the same weight, however many cells of it were run. */
export function meanOf(ratios: readonly LabRatio[]): number;
/** Whether policies that are clearly apart stay in their order; null = nothing to compare. */
export function keepsOrder(orders: LabOrders): boolean | null;
/** Every aim, with what was measured. */
export function labAims(results: LabResults): LabAim[];
