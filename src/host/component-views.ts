// What a component sees of the candidates: an object with exactly the groups it declared, made once per component over the
// pipeline's own copy of the columns. A column is copied when it is read here.
import type {
  CacheColumns,
  CopyColumns,
  LoadColumns,
  PhaseColumns,
  TimingColumns,
  WorkerInput,
} from '../plugin/index.ts';
import type { CompactCandidates } from './compact-candidates.ts';
import type { LazyColumn } from './lazy-column.ts';

/** The candidates as handed to a component that declared `inputs`; for a picker with the sums of their costs. */
export function componentView(
  inputs: readonly WorkerInput[],
  candidates: CompactCandidates,
  costs: LazyColumn | null = null,
): object {
  const view = new CandidatesView(candidates, costs);
  if (costs !== null) view.show('costs');
  if (inputs.includes('cache')) addGroup(view, 'cache', new CacheView(candidates));
  if (inputs.includes('load')) addGroup(view, 'load', new LoadView(candidates));
  if (inputs.includes('preferred-taint')) view.show('preferredTaintMultiplier');
  if (inputs.includes('occupancy')) view.show('occupancy');
  if (inputs.includes('device')) view.show('onCpu');
  if (inputs.includes('in-flight-blocks')) view.show('inFlightBlocks');
  if (inputs.includes('request-phases')) addGroup(view, 'phases', new PhaseView(candidates));
  if (inputs.includes('cache-pressure')) view.show('cachePressure');
  if (inputs.includes('output-length')) view.show('averageOutputTokens');
  if (inputs.includes('timing')) addGroup(view, 'timing', new TimingView(candidates));
  if (inputs.includes('kv-copy-locations')) addGroup(view, 'copies', new CopyView(candidates));
  if (inputs.includes('session-lineage')) view.show('lineage');
  return view;
}

function addGroup(view: object, name: string, value: object): void {
  Object.defineProperty(view, name, { value, enumerable: true });
}

/** Members of the object itself, not of its class: authors may list or spread them. */
function addGetter(target: object, name: string, get: () => unknown): void {
  Object.defineProperty(target, name, { get, enumerable: true });
}

/** Getters by name: the same functions for all objects of a class, as the engine would take others for another shape. */
type Getters<Owner, Name extends PropertyKey> = Readonly<Record<Name, (this: Owner) => unknown>>;

function addGetters<Owner extends object>(target: Owner, getters: Getters<Owner, string>): void {
  for (const [name, get] of Object.entries(getters)) addGetter(target, name, get);
}

class CandidatesView {
  readonly #candidates: CompactCandidates;
  readonly #costs: LazyColumn | null;

  constructor(candidates: CompactCandidates, costs: LazyColumn | null) {
    this.#candidates = candidates;
    this.#costs = costs;
    this.show('count');
    this.show('workerIds');
    this.show('ranks');
  }

  show(name: CandidateMember): void {
    addGetter(this, name, CandidatesView.#getters[name]);
  }

  static readonly #getters: Getters<CandidatesView, CandidateMember> = {
    count() {
      return this.#candidates.count;
    },
    workerIds() {
      return this.#candidates.ids.workerIds;
    },
    ranks() {
      return this.#candidates.ids.ranks;
    },
    costs() {
      return this.#costs?.values;
    },
    preferredTaintMultiplier() {
      return this.#candidates.preferredTaintMultiplier.values;
    },
    occupancy() {
      return this.#candidates.occupancy.values;
    },
    onCpu() {
      return this.#candidates.onCpu.values;
    },
    inFlightBlocks() {
      return this.#candidates.inFlightBlocks.values;
    },
    cachePressure() {
      return this.#candidates.cachePressure.values;
    },
    // Null where no answer has finished.
    averageOutputTokens() {
      return this.#candidates.averageOutputTokens;
    },
    // Null where it is switched off; an empty one would say that no session has anything.
    lineage() {
      return this.#candidates.lineage;
    },
  };
}

type CandidateMember =
  | 'count'
  | 'workerIds'
  | 'ranks'
  | 'costs'
  | 'preferredTaintMultiplier'
  | 'occupancy'
  | 'onCpu'
  | 'inFlightBlocks'
  | 'cachePressure'
  | 'averageOutputTokens'
  | 'lineage';

class CacheView {
  readonly #candidates: CompactCandidates;

  constructor(candidates: CompactCandidates) {
    this.#candidates = candidates;
    addGetters(this, CacheView.#getters);
  }

  static readonly #getters: Getters<CacheView, keyof CacheColumns> = {
    effectiveOverlapBlocks() {
      return this.#candidates.effectiveOverlapBlocks.values;
    },
    cachedTokens() {
      return this.#candidates.cachedTokens.values;
    },
    deviceBlocks() {
      return this.#candidates.deviceBlocks.values;
    },
    hostBlocks() {
      return this.#candidates.hostBlocks.values;
    },
    diskBlocks() {
      return this.#candidates.diskBlocks.values;
    },
    hasTierMatches() {
      return this.#candidates.hasTierMatches;
    },
  };
}

class LoadView {
  readonly #candidates: CompactCandidates;

  constructor(candidates: CompactCandidates) {
    this.#candidates = candidates;
    addGetters(this, LoadView.#getters);
  }

  static readonly #getters: Getters<LoadView, keyof LoadColumns> = {
    available() {
      return this.#candidates.loadAvailable.values;
    },
    activePrefillTokens() {
      return this.#candidates.activePrefillTokens.values;
    },
    decodeCostBlocks() {
      return this.#candidates.decodeCostBlocks.values;
    },
    activeRequests() {
      return this.#candidates.activeRequests.values;
    },
  };
}

class PhaseView {
  readonly #candidates: CompactCandidates;

  constructor(candidates: CompactCandidates) {
    this.#candidates = candidates;
    addGetters(this, PhaseView.#getters);
  }

  static readonly #getters: Getters<PhaseView, keyof PhaseColumns> = {
    prefillRequests() {
      return this.#candidates.prefillRequests.values;
    },
    prefillTokens() {
      return this.#candidates.prefillTokens.values;
    },
    prefillAttention() {
      return this.#candidates.prefillAttention.values;
    },
    prefillFrontMs() {
      return this.#candidates.prefillFrontMs.values;
    },
    decodeRequests() {
      return this.#candidates.decodeRequests.values;
    },
    promptTokens() {
      return this.#candidates.bookedPromptTokens.values;
    },
  };
}

class TimingView {
  readonly #candidates: CompactCandidates;

  constructor(candidates: CompactCandidates) {
    this.#candidates = candidates;
    addGetters(this, TimingView.#getters);
  }

  static readonly #getters: Getters<TimingView, keyof TimingColumns> = {
    kinds() {
      return this.#candidates.timings;
    },
    kind() {
      return this.#candidates.timingKind.values;
    },
  };
}

class CopyView {
  readonly #candidates: CompactCandidates;

  constructor(candidates: CompactCandidates) {
    this.#candidates = candidates;
    addGetters(this, CopyView.#getters);
  }

  static readonly #getters: Getters<CopyView, keyof CopyColumns> = {
    link() {
      return this.#candidates.copyLink;
    },
    copyableBlocks() {
      return this.#candidates.copyableBlocks.values;
    },
    sourcePrefixBlocks() {
      return this.#candidates.sourcePrefixBlocks.values;
    },
  };
}
