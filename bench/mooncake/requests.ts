// The requests of a trace, each id made several ids and each request copied, as far as asked for.
import { BenchOptionError } from '../bench-result.ts';

/** Prompts as ids, in order of arrival. */
export interface Requests {
  /** ms from the first, by request. */
  readonly arrivals: ArrayLike<number>;
  /** Ids by request. */
  readonly prompts: readonly Uint32Array[];
}

/** What of a trace is read here. */
export interface TraceColumns {
  readonly requests: number;
  readonly arrivals: ArrayLike<number>;
  readonly idOffsets: Uint32Array;
  readonly hashIds: Uint32Array;
}

/** How a trace grows. */
export interface Growth {
  /** Each id h becomes h·f … h·f + f − 1. */
  readonly lengthFactor: number;
  /** Of each request, with ids of their own: the first copy has those of the trace, each further one has them moved past the last. */
  readonly copies: number;
}

/** Ids are 32 bits wide, as the tokens that they stand for are. */
const IDS = 2 ** 32;

/**
 * Grows a trace. Copies arrive when their request does, behind it.
 * @throws BenchOptionError when ids do not fit into 32 bits, or an id stands behind two others.
 */
export function grownRequests(trace: TraceColumns, { copies, lengthFactor }: Growth): Requests {
  requirePrefixIds(trace);
  const ids = trace.hashIds.reduce((most, id) => Math.max(most, id), 0) + 1;
  const needed = ids * lengthFactor * copies;
  if (needed > IDS) {
    throw new BenchOptionError(
      `ids up to ${ids - 1}, --length-factor ${lengthFactor} and --trace-copies ${copies} make ${needed} ids, and there are ${IDS}; take less of either`,
    );
  }
  const arrivals = new Float64Array(trace.requests * copies);
  const prompts: Uint32Array[] = [];
  for (let request = 0; request < trace.requests; request += 1) {
    const prompt = trace.hashIds.subarray(trace.idOffsets[request]!, trace.idOffsets[request + 1]!);
    for (let copy = 0; copy < copies; copy += 1) {
      const grown = new Uint32Array(prompt.length * lengthFactor);
      for (let at = 0; at < grown.length; at += 1) {
        const id = prompt[Math.floor(at / lengthFactor)]!;
        grown[at] = (copy * ids + id) * lengthFactor + (at % lengthFactor);
      }
      arrivals[prompts.length] = trace.arrivals[request]!;
      prompts.push(grown);
    }
  }
  return { arrivals, prompts };
}

/** Caches go by ids, which holds only where an id says everything before it. */
function requirePrefixIds({ hashIds, idOffsets, requests }: TraceColumns): void {
  const parents = new Map<number, number>();
  for (let request = 0; request < requests; request += 1) {
    let parent = -1;
    for (let at = idOffsets[request]!; at < idOffsets[request + 1]!; at += 1) {
      const id = hashIds[at]!;
      const known = parents.get(id) ?? parent;
      if (known !== parent) {
        const place = (before: number): string => (before < 0 ? 'first' : `behind ${before}`);
        throw new BenchOptionError(
          `hash id ${id} stands ${place(known)} and, in request ${request + 1}, ${place(parent)}; in a Mooncake trace an id stands for its block and everything before it`,
        );
      }
      parents.set(id, parent);
      parent = id;
    }
  }
}
