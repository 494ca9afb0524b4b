// What a component sees of the candidates: an object with exactly the groups it declared, made once per component over the
// pipeline's own copy of the columns and pointed at new arrays only when these grow.
import type { CacheColumns, CopyColumns, LoadColumns, SessionLineage, WorkerInput } from '../plugin/index.ts';
import type { CandidateTable } from './types.ts';

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** The candidates as handed to a component. */
export interface ComponentView {
  count: number;
  workerIds: BigUint64Array;
  ranks: Int32Array;
  costs?: Float64Array;
  cache?: Writable<CacheColumns>;
  load?: Writable<LoadColumns>;
  preferredTaintMultiplier?: Float64Array;
  occupancy?: Float64Array;
  copies?: Writable<CopyColumns>;
  lineage?: SessionLineage | null;
}

/** A view for these inputs, not yet pointed at anything. */
export function componentView(inputs: readonly WorkerInput[]): ComponentView {
  const none = new Float64Array(0);
  const view: ComponentView = { count: 0, workerIds: new BigUint64Array(0), ranks: new Int32Array(0) };
  if (inputs.includes('cache')) {
    view.cache = {
      effectiveOverlapBlocks: none,
      cachedTokens: none,
      deviceBlocks: none,
      hostBlocks: none,
      diskBlocks: none,
      hasTierMatches: false,
    };
  }
  if (inputs.includes('load')) {
    view.load = {
      available: none,
      activePrefillTokens: none,
      decodeCostBlocks: none,
      activeRequests: none,
    };
  }
  if (inputs.includes('preferred-taint')) view.preferredTaintMultiplier = none;
  if (inputs.includes('occupancy')) view.occupancy = none;
  if (inputs.includes('kv-copy-locations')) view.copies = { copyableBlocks: none, sourcePrefixBlocks: none };
  // Nobody keeps it yet; null says so, where an empty one would say that no session has anything.
  if (inputs.includes('session-lineage')) view.lineage = null;
  return view;
}

/** Points a view at the arrays of a table. */
export function pointView(view: ComponentView, table: CandidateTable): void {
  view.count = table.count;
  view.workerIds = table.workerIds;
  view.ranks = table.ranks;
  if (view.cache) {
    view.cache.effectiveOverlapBlocks = table.effectiveOverlapBlocks;
    view.cache.cachedTokens = table.cachedTokens;
    view.cache.deviceBlocks = table.deviceBlocks;
    view.cache.hostBlocks = table.hostBlocks;
    view.cache.diskBlocks = table.diskBlocks;
    view.cache.hasTierMatches = table.hasTierMatches;
  }
  if (view.load) {
    view.load.available = table.loadAvailable;
    view.load.activePrefillTokens = table.activePrefillTokens;
    view.load.decodeCostBlocks = table.decodeCostBlocks;
    view.load.activeRequests = table.activeRequests;
  }
  if (view.preferredTaintMultiplier) view.preferredTaintMultiplier = table.preferredTaintMultiplier;
  if (view.occupancy) view.occupancy = table.occupancy;
  if (view.copies) {
    view.copies.copyableBlocks = table.copyableBlocks;
    view.copies.sourcePrefixBlocks = table.sourcePrefixBlocks;
  }
}
