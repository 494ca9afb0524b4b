// A worker of dialect `llamacpp-node`: an engine in this process with its events and what it says of itself.
import { randomUUID } from 'node:crypto';
import type { WorkerCapabilities } from '../fleet/index.ts';
import type { Clock, Rng } from '../plugin/index.ts';
import { loadNodeLlama } from '../tokens/index.ts';
import { LocalEventStream } from './event-stream.ts';
import { LOCAL_ACTIONS } from './hint-work.ts';
import { openLlamaContext } from './llama-context.ts';
import { LOCAL_HASH_SCHEME, LocalEngine } from './local-engine.ts';
import type { LocalEngineSettings } from './types.ts';

/** Scheme of the addresses of their event streams. */
export const LOCAL_EVENTS = 'llamacpp-node-events:';

/** A running worker. */
export interface LocalWorker {
  readonly engine: LocalEngine;
  readonly events: LocalEventStream;
  readonly capabilities: WorkerCapabilities;
  /** Ends its requests and frees its memory. */
  close(): Promise<void>;
}

/**
 * Loads a model and starts an engine on it.
 * @param name of the worker, unique in this process.
 * @throws PointsmanError PM_LLAMA_MISSING, PM_LLAMA_MODEL
 */
export async function startLocalWorker(
  name: string,
  gguf: string,
  settings: LocalEngineSettings,
  { clock, rng }: { readonly clock: Clock; readonly rng: Rng },
): Promise<LocalWorker> {
  const llama = await loadNodeLlama();
  const context = await openLlamaContext(llama, gguf, settings).catch(async (thrown: unknown) => {
    await llama.dispose();
    throw thrown;
  });
  const events = new LocalEventStream(clock);
  const engine = new LocalEngine({
    settings,
    context,
    clock,
    rng,
    publish: (batch) => events.publish(batch),
  });
  const address = LOCAL_EVENTS + name;
  const { batchTokens, blockSize, model } = settings;
  return {
    engine,
    events,
    capabilities: {
      epoch: randomUUID(),
      model,
      workerType: 'aggregated',
      blockSize,
      hashScheme: LOCAL_HASH_SCHEME,
      reportsOutcomes: true,
      totalKvBlocks: engine.totalBlocks,
      maxNumBatchedTokens: batchTokens,
      ranks: new Map([
        [
          0,
          {
            routerHint: true,
            actions: new Set(LOCAL_ACTIONS),
            sourceControlEndpoint: null,
            kvEvents: { address, binds: false, replay: address, topic: '' },
          },
        ],
      ]),
    },
    async close() {
      await engine.close();
      await llama.dispose();
    },
  };
}
