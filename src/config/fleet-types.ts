// Models and workers of a configuration after parsing; see types.ts for the rest.
import type { Role } from '../plugin/index.ts';
import type { BusyThresholds } from './busy-thresholds.ts';
import type { InProcessEngine } from './in-process-workers.ts';
import type { QueueProfileSettings } from './queue-settings.ts';
import type { SglangSettings } from './sglang-settings.ts';
import type { ConfigPath } from './types.ts';

/** Where a model's token ids come from. */
export type TokensSetting =
  | {
      readonly source: 'local';
      readonly tokenizer: string;
      readonly template: string | null;
      /** Whose way of handing chats to templates is followed; null or absent = that of the model's workers. */
      readonly renderAs?: 'plain' | 'vllm' | 'sglang' | 'llamacpp' | null;
    }
  | {
      readonly source: 'engine';
      /** Most time from question to ids, in ms. */
      readonly timeoutMs: number;
      /** Questions at once. */
      readonly concurrency: number;
    }
  | { readonly source: 'estimate' };

/** One model clients can name. */
export interface ModelConfig {
  readonly name: string;
  readonly servedAs: string;
  readonly aliases: readonly string[];
  /** Tokens per block; null = learned from the first BlockStored. */
  readonly blockSize: number | null;
  /** Whether its engines' blocks reach one token further (EAGLE); null or absent = learned from the first BlockStored. */
  readonly eagle?: boolean | null;
  /** Placeholder of images where its engines hash pad values in its place; null or absent = they hash the items beside the tokens. */
  readonly imageTokenId?: number | null;
  readonly tokens: TokensSetting;
  readonly routingGroup: string;
  /** Where it differs from `router`; null or absent = nowhere. */
  readonly busyThresholds?: BusyThresholds | null;
  /** Prompt tokens that a rank computes per second; null or absent = not known. */
  readonly prefillTokensPerSecond?: number | null;
  /** Policy classes of a queue profile of its own; null or absent = those of the whole configuration. */
  readonly policyClasses?: readonly string[] | null;
  /** Its own queue profile; null or absent = that of the whole configuration. */
  readonly queueProfile?: QueueProfileSettings | null;
}

/** One configured worker. */
export interface WorkerConfig {
  /** null = stable hash of the url. */
  readonly id: bigint | null;
  readonly model: string;
  readonly url: string;
  readonly dialect: string;
  readonly role: Role;
  readonly ranks: { readonly first: number; readonly count: number };
  readonly kvEvents: Readonly<
    Record<
      string,
      {
        /** Exactly one of the two is an address, unless `poll` is set. */
        readonly connect: string | null;
        readonly bind?: string | null;
        /** Asked for over HTTP at the worker's url, in place of either address; absent = no. */
        readonly poll?: boolean;
        readonly replay: string | null;
        readonly topic: string;
      }
    >
  >;
  readonly maxNumBatchedTokens: number | null;
  readonly totalKvBlocks: number | null;
  readonly taints: readonly string[];
  readonly topology: Readonly<Record<string, string>>;
  /** What it runs on; null = not said. */
  readonly device: string | null;
  /** LoRA adapters that it holds. */
  readonly adapters: readonly string[];
  /** How it hands KV over; null or absent = as its engine says. */
  readonly handoff?: {
    readonly kind: 'nixl' | 'nixl_push' | 'mooncake' | 'bootstrap';
    readonly address: { readonly host: string; readonly port: number } | null;
    readonly engineId: string | null;
    readonly tpSize: number;
    readonly ppSize: number;
  } | null;
  /** How it is spoken to when its dialect is `sglang`; null or absent = as a new release without flags. */
  readonly sglang?: SglangSettings | null;
  /** Where the blocks that it computes for others may go; null or absent = anywhere. */
  readonly kvTransfer?: {
    readonly domain: string;
    readonly enforcement: 'required' | 'preferred';
    readonly weight: number;
  } | null;
  /** How KV hints are written for the engine; absent = `envelope`. */
  readonly hintForm?: 'envelope' | 'legacy';
  /** `ask` the engine, `none`, or the advertisement itself as parsed JSON. */
  readonly capabilities: 'ask' | 'none' | Readonly<Record<string, unknown>>;
  /** The engine in this process that it is; null or absent = it is a server. */
  readonly inProcess?: InProcessEngine | null;
  readonly path: ConfigPath;
}
