// What the gateway is composed from; `serve` brings it together.
import type { RouterConfig } from '../config/index.ts';
import type { AdapterModels } from '../fleet/index.ts';
import type { Metrics, Readiness } from '../observe/index.ts';
import type { Clock, Logger } from '../plugin/index.ts';
import type { Road } from '../road/index.ts';
import type { TokenSource } from '../tokens/index.ts';
import type { SpeculativePrefills } from './speculative-prefills.ts';

/** Collaborators of the gateway. */
export interface GatewayDeps {
  readonly road: Road;
  /** The configuration in force; read at each request, so that a reload takes effect. */
  readonly config: () => RouterConfig;
  /** By the model's configured name. */
  readonly tokens: (model: string) => TokenSource | undefined;
  /** LoRA adapters that requests may name as a model; absent = none. */
  readonly adapters?: Pick<AdapterModels, 'all'>;
  readonly readiness: () => Readiness;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
  /** A new id for a request; never the same twice. */
  readonly newRequestId: () => string;
}

/** With what a gateway makes of them. */
export interface GatewayParts extends GatewayDeps {
  readonly speculative: SpeculativePrefills;
}
