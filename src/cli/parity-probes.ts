// Probe prompts of a running router (`parity.probe_prompts`): for fleets whose traffic is too thin to show what differs.
import { randomInt } from 'node:crypto';
import type { RouterConfig } from '../config/index.ts';
import type { EngineTransport } from '../engines/index.ts';
import type { Fleet, Worker } from '../fleet/index.ts';
import { errorText, type Logger } from '../plugin/index.ts';
import { PROBE_BLOCKS, type ProbeSender, probeIds, sendProbe } from './doctor-prompts.ts';

/** When and to whom probes go. */
export interface ParityProbesOptions extends Omit<ProbeSender, 'config' | 'transport'> {
  readonly fleet: ProbeSender['fleet'] & Pick<Fleet, 'workers'>;
  /** Read before each round. */
  readonly config: () => Pick<RouterConfig, 'models' | 'parity'>;
  readonly transportFor: (worker: Worker) => EngineTransport;
  readonly log: Logger;
}

/** Sends rounds of probes until the function that is returned is called. A rank that refuses one is probed again in the next round. */
export function sendParityProbes(options: ParityProbesOptions): () => void {
  const { clock, config, log } = options;
  let cancel = (): void => undefined;
  let closed = false;
  const again = (): void => {
    if (closed) return;
    cancel = clock.schedule(config().parity.probeEveryMs, () => {
      void (config().parity.probePrompts ? round(options, () => closed) : Promise.resolve())
        .catch((thrown: unknown) =>
          log.error('a round of probe prompts failed', { error: errorText(thrown) }),
        )
        .finally(again);
    });
  };
  again();
  return () => {
    closed = true;
    cancel();
  };
}

async function round(options: ParityProbesOptions, isClosed: () => boolean): Promise<void> {
  const { blockSizes, config, fleet, transportFor } = options;
  const isAsked = ({ state }: Worker): boolean => state === 'ready' && !isClosed();
  for (const worker of fleet.workers()) {
    const { ranks, registered } = worker.spec;
    if (registered === true) continue;
    const blockSize = blockSizes.ofModel(worker.spec.model, fleet.groupOf(worker.spec)) ?? 16;
    const sender = { ...options, config: config(), transport: transportFor(worker) };
    // It may leave while it is probed: a transport would open connections to nobody.
    for (let rank = ranks.first; rank < ranks.first + ranks.count && isAsked(worker); rank += 1) {
      const tokens = probeIds(PROBE_BLOCKS * blockSize + 3, randomInt(1, 2 ** 31));
      const first = await sendProbe(sender, { worker, rank, tokens, isUnique: true });
      if (first.kind === 'answered' && isAsked(worker))
        await sendProbe(sender, { worker, rank, tokens, isUnique: false });
    }
  }
}
