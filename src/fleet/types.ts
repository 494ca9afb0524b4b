// What is known of workers.
import type { SglangSettings } from '../config/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { Role, WorkerId } from '../plugin/index.ts';
import type { RecognizedEngine } from './engine-description.ts';

/** `ready` takes bookings; `suspect` refused or reset connections; `draining` finishes what it has; `gone` failed its health checks. */
export type WorkerState = 'ready' | 'suspect' | 'draining' | 'gone';

/** What one rank says about KV hints. */
export interface RankCapabilities {
  readonly routerHint: boolean;
  /** Accepted `type@version`s; null = not said, so everything may be sent. */
  readonly actions: ReadonlySet<string> | null;
  /** Where peers ask this rank for blocks, or null when it serves none. */
  readonly sourceControlEndpoint: string | null;
  /** Where this rank publishes KV events; null or absent = not said. */
  readonly kvEvents?: KvEventEndpoints | null;
}

/** How the KV of a prompt gets from an engine that computes it to one that decodes. */
export interface WorkerHandoff {
  /**
   * `nixl`: the answer of the prefill says where the blocks lie. `nixl_push` and `mooncake`: a name known before does, so both legs may
   * run at once. `bootstrap`: both meet in a room (SGLang).
   */
  readonly kind: 'nixl' | 'nixl_push' | 'mooncake' | 'bootstrap';
  /** Where the other engine connects; null with `nixl`, which says it in its answer. */
  readonly address: { readonly host: string; readonly port: number } | null;
  /** Name of the engine for `nixl_push` and `mooncake`; null = it has none. */
  readonly engineId: string | null;
  readonly tpSize: number;
  readonly ppSize: number;
}

/** Where the blocks that a prefill worker computes may go. */
export interface KvTransferRule {
  /** Topology level within which they stay, for example `rack`. */
  readonly domain: string;
  readonly enforcement: 'required' | 'preferred';
  /** Weight of the preference, 0 to 1. */
  readonly weight: number;
}

/** A worker's advertisement (`GET /kv_hints/capabilities`), or null when it has none. */
export interface WorkerCapabilities {
  /** Changes at every engine start. */
  readonly epoch: string;
  readonly model: string;
  readonly workerType: string;
  readonly blockSize: number;
  readonly hashScheme: string;
  readonly reportsOutcomes: boolean;
  /** How it hands KV over; null or absent = not said. */
  readonly handoff?: WorkerHandoff | null;
  /** KV pool per rank in blocks; null or absent = not said. */
  readonly totalKvBlocks?: number | null;
  /** Tokens per pass; null or absent = not said. */
  readonly maxNumBatchedTokens?: number | null;
  /** LoRA adapters it has loaded; null or absent = not said. */
  readonly adapters?: readonly string[] | null;
  readonly ranks: ReadonlyMap<number, RankCapabilities>;
}

/** KV event endpoints of one rank. */
export interface KvEventEndpoints {
  /** ZeroMQ address of the live stream; with `polled` the HTTP one that is asked. */
  readonly address: string;
  /** The engine publishes nothing, but hands its events to whoever asks next (TensorRT-LLM); absent = it publishes. */
  readonly polled?: boolean;
  /** The router listens there and the engine connects, instead of the other way round. */
  readonly binds: boolean;
  /** Where missed batches are asked for; null = nowhere. */
  readonly replay: string | null;
  /** Topic prefix; empty for everything. */
  readonly topic: string;
}

/** What configuration or discovery says about a worker. */
export interface WorkerSpec {
  readonly id: WorkerId;
  /** Key under `models`. */
  readonly model: string;
  /** Base url; `virtual:` for simulated workers in this process. */
  readonly url: string;
  readonly dialect: string;
  readonly role: Role;
  readonly ranks: { readonly first: number; readonly count: number };
  readonly kvEvents: ReadonlyMap<number, KvEventEndpoints>;
  /** Tokens per pass; null = unknown, never 0. */
  readonly maxNumBatchedTokens: number | null;
  readonly totalKvBlocks: number | null;
  readonly taints: readonly string[];
  readonly topology: Readonly<Record<string, string>>;
  /** What it runs on, for example `gpu`; `cpu` is told apart. Null or absent = not said. */
  readonly device?: string | null;
  /** LoRA adapters that it holds, beside those that its engine advertises; absent = none. */
  readonly adapters?: readonly string[];
  /** Null or absent = that of its model. */
  readonly routingGroup?: string | null;
  /** Tokens per block, as somebody registered it; null or absent = known by the model. */
  readonly blockSize?: number | null;
  /** Whether its blocks reach one token further than they step (EAGLE), as somebody registered it; null or absent = not said. */
  readonly eagle?: boolean | null;
  /**
   * Callers carry requests to it themselves: Pointsman never connects to its `url`, and it is no candidate of requests that Pointsman
   * dispatches. Absent = no.
   */
  readonly registered?: boolean;
  /** How it hands KV over; null or absent = as its engine says. */
  readonly handoff?: WorkerHandoff | null;
  /** How it is spoken to when its dialect is `sglang`; null or absent = as a new release without flags. */
  readonly sglang?: SglangSettings | null;
  /** How hints are written for its engine: the envelope, or the payload of its copy alone as older engines take it. Absent = `envelope`. */
  readonly hintForm?: 'envelope' | 'legacy';
  /** Null or absent = its blocks may go anywhere. */
  readonly kvTransfer?: KvTransferRule | null;
}

/**
 * Why what a rank has cached is estimated from what was sent to it: KV events are switched off, nobody said where it publishes them,
 * it publishes none although it computes new blocks, they are of another block size than its model's, or they failed a parity check: they
 * are not of the prompts that it is sent.
 */
export type ApproximateReason =
  | 'kv_events_off'
  | 'not_announced'
  | 'not_heard'
  | 'other_block_size'
  | 'parity_failed';

/** A worker of the fleet. */
export interface Worker {
  readonly spec: WorkerSpec;
  readonly state: WorkerState;
  readonly capabilities: WorkerCapabilities | null;
  /** What the engine says that it is; null or absent = it was not asked, or did not say. */
  readonly engine?: RecognizedEngine | null;
  /** Those of its record, and one for each domain of its topology. */
  readonly taints: readonly string[];
  /** Ranks whose cache is estimated, and why; absent = none. */
  readonly approximate?: ReadonlyMap<number, ApproximateReason>;
  /** Slot of each rank, index 0 = `ranks.first`. */
  readonly slots: readonly OwnerSlot[];
}
