// The configuration after parsing: everything defaulted, units resolved, names in camelCase. Each key's YAML form, unit and
// default stand in docs/configuration.md.

import type { ErrorCode, Role } from '../plugin/index.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { BusyThresholds } from './busy-thresholds.ts';
import type { DisaggregationSettings } from './disaggregation.ts';
import type { ModelConfig, WorkerConfig } from './fleet-types.ts';
import type { QueuePolicy, QueueProfileSettings } from './queue-settings.ts';
import type { SessionAffinitySettings } from './session-affinity.ts';
import type { StatedKind } from './timing-profile.ts';

/** Path into the YAML document, for example ['worker_selection', 'decode', 'hints', 0, 'type']. */
export type ConfigPath = readonly (string | number)[];

/** Which node of a path a problem points at: the value, its key, or (for a missing key) the mapping that lacks it. */
export type ProblemAnchor = 'value' | 'key' | 'parent';

/** One thing wrong with the configuration, as data; rendered with line, column and the nearest valid name. */
export interface ConfigProblem {
  readonly severity: 'error' | 'warning';
  readonly code: ErrorCode;
  readonly path: ConfigPath;
  readonly anchor: ProblemAnchor;
  /** One sentence without position and path; both are put in front when rendered. */
  readonly message: string;
  /** Line and column, 1-based, where they are known without the path (syntax errors). */
  readonly at?: { readonly line: number; readonly column: number };
  /** Name of the file it stands in, where there are two and the path alone does not say. */
  readonly file?: string;
}

/** The text a configuration came from; finds positions for problems that turn up after parsing. */
export interface ConfigSource {
  /** File name as the user gave it, for messages. */
  readonly file: string;
  /** Absolute folder that relative paths in the file start from. */
  readonly folder: string;
  /** Renders `router.yaml:12:7: path: message`, and with `excerpt` the line and a caret below. */
  render(problem: ConfigProblem, options?: { readonly excerpt?: boolean }): string;
  /** Line and column of a problem, 1-based; null for a text that is empty or was never parsed. */
  locate?(problem: ConfigProblem): { readonly line: number; readonly column: number } | null;
  /** Where there are two files: the one a path stands in. */
  fileOf?(path: ConfigPath): string;
}

/** Router modes. */
export type RouterMode =
  | 'kv'
  | 'round-robin'
  | 'random'
  | 'power-of-two'
  | 'least-loaded'
  | 'device-aware-weighted'
  | 'direct';

/** One hint policy listed under a role. */
export interface HintEntry {
  readonly type: string;
  /** Defaults to the type. */
  readonly name: string;
  /** Raw YAML value; u64 exact as bigint. */
  readonly parameters: unknown;
  /** Where it runs; null = as its author says. */
  readonly isolation: 'in-process' | 'thread' | null;
  /** How long the answer of a thread is waited for; null = the default. */
  readonly deadlineMs: number | null;
  readonly path: ConfigPath;
}

/** What one role says under `worker_selection`. */
export interface RoleSelectionEntry {
  /** A type, an instance name, or `default`, as written. */
  readonly policy:
    | { readonly kind: 'name'; readonly name: string }
    | { readonly kind: 'type'; readonly type: string }
    | { readonly kind: 'instance'; readonly name: string };
  readonly parameters: unknown;
  readonly onCommitFailure: 'degrade' | 'release';
  /** null = no `hints` key: defaults by host; an empty list runs none. */
  readonly hints: readonly HintEntry[] | null;
  /** Run after those, whether listed or by default: `kv_hint_policy`. */
  readonly appendedHints: readonly HintEntry[];
  /** Where its hints stand; null when it has none of its own. */
  readonly hintsPath: ConfigPath | null;
  readonly path: ConfigPath;
}

/** A named instance under `worker_selection.instances`. */
export interface InstanceEntry {
  readonly name: string;
  readonly type: string;
  readonly parameters: unknown;
  readonly path: ConfigPath;
}

/** Who decides when and as what a request enters the queue. */
export interface ClassifierEntry {
  /** A type, or `default`, as written. */
  readonly type: string;
  readonly parameters: unknown;
  /** How long one request may wait for its classification; ms. */
  readonly maxWaitMs: number;
  /** Where it runs; null = as its author says. */
  readonly isolation: 'in-process' | 'thread' | null;
  /** How long a thread may take to take a request or an event; null = the default. */
  readonly deadlineMs: number | null;
  readonly path: ConfigPath;
  /** Where the type stands. */
  readonly typePath: ConfigPath;
}

/** Router keys. Weights are multipliers, ≥ 0. */
export interface RouterSettings {
  readonly mode: RouterMode;
  readonly useKvEvents: boolean;
  /** How long an event stream may be silent before its engine is asked whether its last events were lost; 0 = never asked. */
  readonly kvEventIdleCheckMs: number;
  readonly overlapScoreCredit: number;
  readonly overlapScoreCreditDecay: number;
  readonly prefillLoadScale: number;
  readonly decodeActiveRequestWeight: number;
  readonly hostCacheHitWeight: number;
  readonly diskCacheHitWeight: number;
  readonly routerTemperature: number;
  /** How many requests another worker takes for one of a CPU, ≥ 1. */
  readonly encoderCudaToCpuRatio: number;
  readonly routerTtlSeconds: number;
  /** Of every model that says nothing else. */
  readonly busyThresholds: BusyThresholds;
  /** Of models without a queue profile: busy threshold in multiples of the tokens of a rank's pass; null = they do not queue. */
  readonly queueThreshold: number | null;
  readonly queuePolicy: QueuePolicy;
  /** How often bookings are looked at that do not get on. */
  readonly activeRequestExpirySeconds: number;
  /** Whether blocks of output count as load. */
  readonly trackOutputBlocks: boolean;
  /** What foresees how long prompts take to compute. */
  readonly prefillLoadModel: 'none' | 'throughput';
  /** Whether load that engines report counts in decisions. */
  readonly engineLoad: 'observe' | 'blend';
  /** 0 = from the system. */
  /** Times stated of kinds of workers; empty = all are learnt from where learning starts. */
  readonly timingProfile: readonly StatedKind[];
  readonly seed: number;
  readonly enableSessionPrefixIndex: boolean;
  readonly sessionAffinity: SessionAffinitySettings;
  /** CIDR networks. */
  readonly trustIncomingHintsFrom: readonly string[];
  readonly trustRoutingFieldsFrom: readonly string[];
  readonly disaggregation: DisaggregationSettings;
  readonly agents: AgentSettings;
}

/** How plugins are contained. Times in ms. */
export interface ContainmentSettings {
  /** What a call may take; 0 = as long as it likes. */
  readonly softBudgetMs: number;
  /** How long the main thread may be blocked. */
  readonly watchdogMs: number;
  readonly breaker: {
    readonly failures: number;
    readonly overruns: number;
    readonly windowMs: number;
    readonly skipMs: number;
  };
  readonly tripped: {
    readonly classifier: 'pass-through' | 'refuse';
    readonly workerSelection: 'default' | 'refuse';
  };
}

/** The selection service. */
interface SelectionServiceConfig {
  readonly host: string;
  readonly port: number;
  /** Null = callers need none. */
  readonly token: string | null;
  /** Age up to which a selection can be reserved. */
  readonly cacheTtlMs: number;
  readonly cacheMaxEntries: number;
  readonly cacheMaxBytes: number;
}

/** The whole configuration. */
export interface RouterConfig {
  readonly listen: { readonly host: string; readonly port: number };
  readonly admin: { readonly host: string; readonly port: number; readonly token: string | null };
  readonly auth: {
    readonly apiKeys: readonly {
      readonly name: string;
      readonly sha256: string;
      readonly models: readonly string[] | null;
      readonly tenant: string | null;
    }[];
  } | null;
  readonly limits: {
    readonly bodyBytes: number;
    readonly headerBytes: number;
    readonly promptTokens: number;
    /** Per model, of token ids of prompts that came lately; 0 = none. */
    readonly tokenCacheBytes: number;
    readonly concurrentRequests: number;
    /** How long a request may wait for a first worker of its model; 0 = not at all. */
    readonly firstWorkerWaitMs: number;
    /** Most requests that do at once. */
    readonly firstWorkerWaiting: number;
    /** Tries of a request after its first. */
    readonly retries: number;
    /** Retries per request in the long run. */
    readonly retryBudget: number;
    /** Prompts of next turns that are computed ahead at once; 0 = none. */
    readonly speculativePrefills: number;
    readonly indexBytes: number;
    /** Of the session prefix index. */
    readonly lineageBytes: number;
    readonly lineageSessions: number;
    /** How long after its last use a session is forgotten; 0 = never. */
    readonly lineageTtlMs: number;
    readonly decisionBytes: number;
    readonly overloadStatus: number;
    readonly drainMs: number;
  };
  readonly models: ReadonlyMap<string, ModelConfig>;
  readonly workers: readonly WorkerConfig[];
  readonly router: RouterSettings;
  /** What a running router's parity checks ask of engines; times in ms. */
  readonly parity: {
    readonly probePrompts: boolean;
    readonly probeEveryMs: number;
    /** Whether engines are asked for the prompt token ids that they see, of one request in many. */
    readonly asksTokenIds: boolean;
  };
  /** Where the prefix index is kept over restarts; times in ms. */
  readonly snapshot: {
    /** Absolute; null = nowhere. */
    readonly path: string | null;
    readonly everyMs: number;
    readonly maxAgeMs: number;
  };
  /** Further doors of the process. */
  readonly services: {
    readonly indexer: { readonly port: number } | null;
    readonly selection: SelectionServiceConfig | null;
  };
  readonly plugins: readonly { readonly specifier: string; readonly path: ConfigPath }[];
  readonly workerSelection: Readonly<Partial<Record<Role, RoleSelectionEntry>>>;
  readonly instances: readonly InstanceEntry[];
  /** Null = none: requests pass as they are. */
  readonly requestClassifier: ClassifierEntry | null;
  /** What may be named as a policy class: families, and classes without one. Without a queue profile `default` alone. */
  readonly policyClasses: readonly string[];
  /** Of models without their own; null = none. */
  readonly queueProfile: QueueProfileSettings | null;
  readonly containment: ContainmentSettings;
  readonly observe: {
    readonly candidates: number;
    /** Whether engines are asked for their own account of load. */
    readonly engineLoad: boolean;
    readonly logLevel: string;
  };
}

/** A parsed configuration with what to tell the user about it. */
export interface LoadedConfig {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly warnings: readonly ConfigProblem[];
  /** Absolute paths of the files it was read from, secrets apart. */
  readonly files: readonly string[];
  /** `router_policy_config` as written, whether it was read or not. */
  readonly namedPolicyFile: string | null;
}
