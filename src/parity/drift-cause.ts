// Names the likely cause of a drift out of what else is known of the worker.
import type { Drift } from './prediction-audit.ts';

/** What else is known. */
export interface DriftEvidence {
  /** Batches of events are lost for good, or a replay did not reach back. */
  readonly lostEvents: boolean;
  /** The stream began in the middle of the engine's life. */
  readonly partial: boolean;
  /** Prompts were stored under other tokens or hashes than the router's. */
  readonly disagrees: boolean;
  /** Blocks of several KV cache groups are announced. */
  readonly hybrid: boolean;
  /** The cache is estimated from what was sent. */
  readonly estimated: boolean;
  /** Salts make no difference to the engine. */
  readonly ignoresSalt: boolean;
}

/** The cause in words. */
export function driftCause({ kind }: Drift, seen: DriftEvidence): string {
  switch (kind) {
    case 'never_hits':
      if (seen.estimated) return 'its prefix cache seems to be off';
      if (seen.disagrees) return 'its block hashes are of other tokens than the router’s';
      return 'its block hashes are not those of the prompts, or its prefix cache is off';
    case 'over_predicted':
      if (seen.lostEvents) return 'events of evictions were lost';
      if (seen.hybrid) return 'not all of its KV cache groups hold the blocks';
      if (seen.disagrees) return 'its block hashes are of other tokens than the router’s';
      if (seen.estimated) return 'its cache is estimated, and smaller than believed';
      return 'events of evictions are missing, or its prefix cache is cleared without an event';
    case 'under_predicted':
      if (seen.ignoresSalt) return 'it ignores cache_salt';
      if (seen.disagrees) return 'its block hashes are of other tokens than the router’s';
      if (seen.lostEvents) return 'events of stored blocks were lost';
      if (seen.partial) return 'it held blocks before the router listened';
      if (seen.estimated) return 'others than this router send to it, so that an estimate falls short';
      return 'events of stored blocks are missing, or others send to it whose blocks are not announced';
  }
}
