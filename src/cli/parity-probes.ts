// Probe prompts of a running router (`parity.probe_prompts`): for fleets whose traffic is too thin to show what differs.
import { randomInt } from 'node:crypto';
import type { Fleet } from '../fleet/index.ts';
import { PROBE_BLOCKS, type ProbeSender, probeIds, sendProbe } from './doctor-prompts.ts';

/** When and to whom probes go. */
export interface ParityProbesOptions extends ProbeSender {
  readonly fleet: ProbeSender['fleet'] & Pick<Fleet, 'workers'>;
  /** Read before each round. */
  readonly settings: () => { readonly probePrompts: boolean; readonly probeEveryMs: number };
}

/** Sends rounds of probes until the function that is returned is called. A rank that refuses one is probed again in the next round. */
export function sendParityProbes(options: ParityProbesOptions): () => void {
  const { clock, settings } = options;
  let cancel = (): void => undefined;
  let closed = false;
  const again = (): void => {
    if (closed) return;
    cancel = clock.schedule(settings().probeEveryMs, () => {
      void (settings().probePrompts ? round(options, () => closed) : Promise.resolve()).finally(again);
    });
  };
  again();
  return () => {
    closed = true;
    cancel();
  };
}

async function round(options: ParityProbesOptions, isClosed: () => boolean): Promise<void> {
  const { blockSizes, fleet } = options;
  for (const worker of fleet.workers()) {
    const { ranks, registered } = worker.spec;
    if (worker.state !== 'ready' || registered === true) continue;
    const blockSize = blockSizes.ofModel(worker.spec.model, fleet.groupOf(worker.spec)) ?? 16;
    for (let rank = ranks.first; rank < ranks.first + ranks.count && !isClosed(); rank += 1) {
      const tokens = probeIds(PROBE_BLOCKS * blockSize + 3, randomInt(1, 2 ** 31));
      const first = await sendProbe(options, { worker, rank, tokens, isUnique: true });
      if (first.kind === 'answered') await sendProbe(options, { worker, rank, tokens, isUnique: false });
    }
  }
}
