// How bits flow towards a rank: at the smaller share of both ends' links, which change while they flow.
import type { LinkShare } from './link-share.ts';

/** One running transfer, seen from where it arrives. */
export interface Flow {
  remainingBits: number;
  /** Bits flow from here on, ms. */
  flowsFrom: number;
  /** The source's share for it, Gbit/s. */
  sourceGbps: number;
}

/** When its last bit arrives if nothing changes, ms; infinite while nothing flows. @param speedup divides every modelled time. */
export function flowEndsAt(flow: Flow, link: LinkShare, speedup: number): number {
  return (
    flow.flowsFrom + (flow.remainingBits === 0 ? 0 : flow.remainingBits / bitsPerMs(flow, link, speedup))
  );
}

/** Books what has flowed until now. A change of rate takes effect from the moment it is heard of. */
export function settleFlow(flow: Flow, link: LinkShare, speedup: number, now: number): void {
  if (now <= flow.flowsFrom) return;
  flow.remainingBits = Math.max(
    0,
    flow.remainingBits - (now - flow.flowsFrom) * bitsPerMs(flow, link, speedup),
  );
  flow.flowsFrom = now;
}

function bitsPerMs({ sourceGbps }: Flow, link: LinkShare, speedup: number): number {
  return Math.min(link.share, sourceGbps) * 1e6 * speedup;
}
