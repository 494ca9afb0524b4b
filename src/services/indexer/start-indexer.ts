// A standalone indexer from its options to its port: listen to the workers, take a peer's blocks, then serve.
import { type BlockHasher, createBlockHasher } from '../../kv/index.ts';
import type { ScrapableMetrics } from '../../observe/index.ts';
import type { Clock, Logger } from '../../plugin/index.ts';
import type { AccessLog } from './access-log.ts';
import { type IndexerServer, listenIndexer } from './http-server.ts';
import { recoverFromPeers } from './recovery.ts';
import { IndexerRegistry, type Registration } from './registry.ts';

/** Subscriptions get this long to stand before a peer is asked: what is told in between must be heard, in ms. */
const SUBSCRIBED_MS = 1_000;

/** What an indexer is started from. */
export interface StartIndexerOptions {
  readonly host: string;
  readonly port: number;
  /** Ranks to listen to from the start; more register themselves. */
  readonly workers: readonly Registration[];
  /** Indexers to ask for their blocks, in order. */
  readonly peers: readonly string[];
  readonly indexBytes: number;
  readonly testEndpoints: boolean;
  /** Where answered requests are written down; absent = nowhere. Closed with the indexer. */
  readonly accessLog?: AccessLog;
  /** Header with the caller's name for a request; default `x-trace-id`. */
  readonly traceIdHeader?: string;
  readonly clock: Clock;
  readonly metrics: ScrapableMetrics;
  readonly log: Logger;
  readonly hasher?: BlockHasher;
}

/** A running indexer. */
export interface RunningIndexer {
  readonly url: string;
  readonly registry: IndexerRegistry;
  /** The peer whose blocks were taken; null = it started empty. */
  readonly recoveredFrom: string | null;
  /** Lets running answers finish, then frees port and sockets. */
  stop(): Promise<void>;
}

/** Starts an indexer. @throws PointsmanError for workers that cannot be registered and a port that cannot be had; then nothing runs. */
export async function startIndexer(options: StartIndexerOptions): Promise<RunningIndexer> {
  const { clock, host, indexBytes, log, metrics, peers, port, testEndpoints } = options;
  const hasher = options.hasher ?? createBlockHasher();
  const registry = new IndexerRegistry({ hasher, clock, metrics, log, indexBytes });
  let server: IndexerServer;
  let recoveredFrom: string | null = null;
  try {
    for (const worker of options.workers) await registry.register(worker);
    for (const peer of peers) registry.addPeer(peer);
    if (peers.length > 0) {
      await new Promise<void>((resolve) => clock.schedule(SUBSCRIBED_MS, resolve));
      recoveredFrom = await recoverFromPeers(registry, peers, { clock, log });
      if (recoveredFrom === null) log.warn('no peer gave its blocks: the indexer starts empty');
    }
    registry.gate.open();
    server = await listenIndexer({
      host,
      port,
      registry,
      hasher,
      metrics,
      clock,
      log,
      testEndpoints,
      accessLog: options.accessLog ?? null,
      traceIdHeader: (options.traceIdHeader ?? 'x-trace-id').toLowerCase(),
    });
  } catch (thrown) {
    registry.close();
    await options.accessLog?.close();
    throw thrown;
  }
  return {
    url: server.url,
    registry,
    recoveredFrom,
    async stop() {
      await server.close();
      registry.close();
      await options.accessLog?.close();
    },
  };
}
