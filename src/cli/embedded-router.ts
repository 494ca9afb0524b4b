// A router inside another program: what `pointsman serve` runs, without its process.
import type { LoadedConfig } from '../config/index.ts';
import type { Readiness } from '../observe/index.ts';
import { type Logger, NO_LOG, type PluginRegistry } from '../plugin/index.ts';
import { startRouter } from './running-router.ts';
import { systemClock } from './system-clock.ts';

/** Options of {@link startEmbeddedRouter}. */
export interface EmbeddedRouterOptions {
  /** Where log lines go; default: nowhere. `observe.log_level` is the logger's business then. */
  readonly log?: Logger;
  /** Tokenizer threads per model with a local tokenizer; default 1. */
  readonly tokenizerThreads?: number;
  /** Registers policies of this program, as a plugin's `register` does; the configuration uses them by their types. */
  readonly register?: (registry: PluginRegistry) => void | Promise<void>;
}

/** A router that serves from this process. */
export interface EmbeddedRouter {
  /** `http://host:port` of the API, with the real port. */
  readonly url: string;
  /** The same of the admin API. */
  readonly adminUrl: string;
  /** What `/ready` says. */
  readiness(): Readiness;
  /**
   * Stops: no new requests, running ones get `drainMs` (default `limits.drain`), then end with an error; sockets and threads are
   * freed. Further calls return the same promise.
   */
  stop(drainMs?: number): Promise<void>;
}

/**
 * Starts a router as `pointsman serve` does, and waits until its workers answered the first questions or two seconds are over.
 * @param loaded from `loadConfig` or `parseConfig`; its warnings are logged.
 * @throws ConfigError with every problem that a start refuses, PointsmanError PM_LISTEN when a port is taken; nothing runs then.
 * @example
 * const router = await startRouter(loadConfig('router.yaml'));
 * console.log(router.url, router.readiness().warnings);
 * await router.stop();
 */
export async function startEmbeddedRouter(
  loaded: LoadedConfig,
  options: EmbeddedRouterOptions = {},
): Promise<EmbeddedRouter> {
  const { config, source, warnings } = loaded;
  const { log = NO_LOG, register, tokenizerThreads = 1 } = options;
  for (const warning of warnings) log.warn(source.render(warning), { code: warning.code });
  const router = await startRouter({
    config,
    source,
    clock: systemClock(),
    log,
    tokenizerThreads,
    ...(register === undefined ? {} : { register }),
  });
  return {
    url: router.url,
    adminUrl: router.adminUrl,
    readiness: () => router.readiness(),
    stop: (drainMs = router.config().limits.drainMs) => router.stop(drainMs),
  };
}
