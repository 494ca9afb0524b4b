// From the file's names to the program's: camelCase, absolute paths, secrets read, null for what was not said.
import { resolve } from 'node:path';
import { ROLES, type Role } from '../plugin/index.ts';
import { buildAgents } from './agent-settings.ts';
import { buildThresholds } from './busy-thresholds.ts';
import { buildDisaggregation, buildHandoff } from './disaggregation.ts';
import type { ModelConfig, WorkerConfig } from './fleet-types.ts';
import { inProcessEngine, inProcessName } from './in-process-workers.ts';
import type { QueueProfile } from './queue-profile.ts';
import { buildQueueProfile } from './queue-settings.ts';
import type { FileValue } from './schema.ts';
import { MAX_WAIT_MS } from './schema-selection.ts';
import { buildSessionAffinity } from './session-affinity.ts';
import type { SglangSettings } from './sglang-settings.ts';
import type { StatedKind } from './timing-profile.ts';
import { buildTokens, ggufOf } from './tokens-setting.ts';
import type { ClassifierEntry, ConfigPath, HintEntry, RoleSelectionEntry, RouterConfig } from './types.ts';

/** Secrets that were read while building. */
export interface ReadSecrets {
  readonly adminToken: string | null;
  readonly selectionToken: string | null;
  /** In the order of `auth.api_keys`. */
  readonly keyHashes: readonly string[];
}

function buildSelectionService(
  { services }: FileValue,
  token: string | null,
): RouterConfig['services']['selection'] {
  const { selection } = services;
  return (
    selection && {
      host: selection.host,
      port: selection.port,
      token,
      cacheTtlMs: selection.selection_cache_ttl_secs * 1000,
      cacheMaxEntries: selection.selection_cache_max_entries,
      cacheMaxBytes: selection.selection_cache_max_bytes,
    }
  );
}

/** Builds the configuration of a file that passed the schema. `folder` is where relative paths start. */
export function buildConfig(
  file: FileValue,
  folder: string,
  secrets: ReadSecrets,
  timingProfile: readonly StatedKind[],
): RouterConfig {
  const { limits, router, containment } = file;
  const models = new Map(
    Object.entries(file.models).map(([name, value]) => [
      name,
      buildModel(name, value, folder, ggufOf(file, name)),
    ]),
  );
  return {
    listen: file.listen,
    admin: { host: file.admin.host, port: file.admin.port, token: secrets.adminToken },
    auth: file.auth && {
      apiKeys: file.auth.api_keys.map(({ name, models, tenant }, index) => {
        return { name, sha256: (secrets.keyHashes[index] ?? '').toLowerCase(), models, tenant };
      }),
    },
    limits: {
      bodyBytes: limits.body_bytes,
      headerBytes: limits.header_bytes,
      promptTokens: limits.prompt_tokens,
      tokenCacheBytes: limits.token_cache_bytes,
      concurrentRequests: limits.concurrent_requests,
      firstWorkerWaitMs: limits.first_worker_wait,
      firstWorkerWaiting: limits.first_worker_waiting,
      retries: limits.retries,
      retryBudget: limits.retry_budget,
      speculativePrefills: limits.speculative_prefills,
      indexBytes: limits.index_bytes,
      lineageBytes: limits.lineage_bytes,
      lineageSessions: limits.lineage_sessions,
      lineageTtlMs: limits.lineage_ttl,
      decisionBytes: limits.decision_bytes,
      overloadStatus: limits.overload_status,
      drainMs: limits.drain,
    },
    models,
    workers: file.workers.map((value, index) => buildWorker(value, index, file, models, folder)),
    router: {
      mode: router.mode,
      useKvEvents: router.use_kv_events,
      kvEventIdleCheckMs: router.kv_event_idle_check,
      overlapScoreCredit: router.overlap_score_credit,
      overlapScoreCreditDecay: router.overlap_score_credit_decay,
      prefillLoadScale: router.prefill_load_scale,
      decodeActiveRequestWeight: router.decode_active_request_weight,
      hostCacheHitWeight: router.host_cache_hit_weight,
      diskCacheHitWeight: router.disk_cache_hit_weight,
      routerTemperature: router.router_temperature,
      encoderCudaToCpuRatio: router.encoder_cuda_to_cpu_ratio,
      routerTtlSeconds: router.router_ttl_secs,
      busyThresholds: buildThresholds(router),
      queueThreshold: router.router_queue_threshold,
      queuePolicy: router.router_queue_policy ?? 'fcfs',
      activeRequestExpirySeconds: router.active_request_expiry_secs,
      trackOutputBlocks: router.router_track_output_blocks,
      prefillLoadModel: router.router_prefill_load_model,
      engineLoad: router.engine_load,
      timingProfile,
      seed: router.seed,
      enableSessionPrefixIndex: router.enable_session_prefix_index,
      sessionAffinity: buildSessionAffinity(router.session_affinity),
      trustIncomingHintsFrom: router.trust_incoming_hints_from,
      trustRoutingFieldsFrom: router.trust_routing_fields_from,
      disaggregation: buildDisaggregation(router),
      agents: buildAgents(router),
    },
    parity: {
      probePrompts: file.parity.probe_prompts,
      probeEveryMs: file.parity.probe_every,
      asksTokenIds: file.parity.ask_token_ids,
    },
    snapshot: {
      path: file.snapshot.path === null ? null : resolve(folder, file.snapshot.path),
      everyMs: file.snapshot.every,
      maxAgeMs: file.snapshot.max_age,
    },
    services: {
      indexer: file.services.indexer,
      selection: buildSelectionService(file, secrets.selectionToken),
    },
    plugins: file.plugins.map((specifier, index) => ({ specifier, path: ['plugins', index] })),
    workerSelection: buildSelection(file),
    instances: (file.worker_selection?.instances ?? []).map((value, index) => {
      return { ...value, path: ['worker_selection', 'instances', index] };
    }),
    requestClassifier: buildClassifier(file.request_classifier),
    policyClasses: policyClasses(file) ?? ['default'],
    queueProfile: buildQueueProfile(file),
    containment: {
      softBudgetMs: containment.soft_budget,
      watchdogMs: containment.watchdog,
      breaker: {
        failures: containment.breaker.failures,
        overruns: containment.breaker.overruns,
        windowMs: containment.breaker.window,
        skipMs: containment.breaker.skip,
      },
      tripped: {
        classifier: containment.tripped.classifier,
        workerSelection: containment.tripped.worker_selection,
      },
    },
    observe: {
      candidates: file.observe.candidates,
      engineLoad: file.observe.engine_load,
      logLevel: file.observe.log_level,
    },
  };
}

function buildModel(
  name: string,
  value: FileValue['models'][string],
  folder: string,
  gguf: string | null,
): ModelConfig {
  return {
    name,
    servedAs: value.served_as ?? name,
    aliases: value.aliases,
    blockSize: value.block_size,
    eagle: value.eagle,
    imageTokenId: value.image_token_id,
    tokens: buildTokens(value.tokens, folder, gguf),
    routingGroup: value.routing_group,
    busyThresholds: buildThresholds(value),
    prefillTokensPerSecond: value.prefill_tokens_per_second,
    policyClasses: policyClasses(value),
    queueProfile: buildQueueProfile(value),
  };
}

/** What a queue profile lets others name: its families, and the classes that stand for themselves. Null = there is no profile. */
function policyClasses({ policy_classes: classes }: QueueProfile): readonly string[] | null {
  if (classes === null) return null;
  return [...new Set(classes.map(({ name, policy_family: family }) => family ?? name))];
}

function buildClassifier(value: FileValue['request_classifier']): ClassifierEntry | null {
  if (value === null) return null;
  const path = ['request_classifier'];
  if ('bare' in value) {
    const unsaid = { parameters: {}, maxWaitMs: MAX_WAIT_MS, isolation: null, deadlineMs: null };
    return { type: value.bare, ...unsaid, path, typePath: path };
  }
  const { type, parameters, max_wait: maxWaitMs, isolation, deadline: deadlineMs } = value;
  return { type, parameters, maxWaitMs, isolation, deadlineMs, path, typePath: [...path, 'type'] };
}

function buildSglang(given: FileValue['workers'][number]['sglang']): SglangSettings | null {
  return (
    given && {
      closeSession: given.close_session,
      openaiHints: given.openai_hints,
      rankField: given.rank_field,
      lowPriorityFirst: given.low_priority_first,
    }
  );
}

function buildWorker(
  value: FileValue['workers'][number],
  index: number,
  { workers }: FileValue,
  models: ReadonlyMap<string, ModelConfig>,
  folder: string,
): WorkerConfig {
  const onlyModel = models.size === 1 ? [...models.keys()][0] : undefined;
  return {
    id: value.id,
    model: value.model ?? onlyModel ?? '',
    url: value.url ?? inProcessName(workers, index),
    dialect: value.dialect,
    role: value.role,
    ranks: value.ranks,
    kvEvents: value.kv_events,
    maxNumBatchedTokens: value.max_num_batched_tokens,
    totalKvBlocks: value.total_kv_blocks,
    taints: value.taints,
    topology: value.topology,
    device: value.device,
    adapters: value.adapters,
    handoff: buildHandoff(value),
    sglang: buildSglang(value.sglang),
    kvTransfer:
      value.kv_transfer_domain === null
        ? null
        : {
            domain: value.kv_transfer_domain,
            enforcement: value.kv_transfer_enforcement,
            weight: value.kv_transfer_preferred_weight,
          },
    hintForm: value.kv_hint_form,
    capabilities: value.capabilities,
    inProcess: inProcessEngine(value, (path) => resolve(folder, path)),
    path: ['workers', index],
  };
}

function buildSelection(file: FileValue): Partial<Record<Role, RoleSelectionEntry>> {
  const entries: Partial<Record<Role, RoleSelectionEntry>> = {};
  const everywhere = file.kv_hint_policy;
  const appendedHints = everywhere === null ? [] : [buildHint(everywhere, ['kv_hint_policy'])];
  for (const role of ROLES) {
    const value = file.worker_selection?.[role] ?? null;
    const older = file.hint_policies?.[role] ?? null;
    if (value === null && older === null && everywhere === null) continue;
    const own = value === null || 'bare' in value ? null : (value.hints ?? null);
    const ownPath = ['worker_selection', role];
    const hintsPath = own === null ? ['hint_policies', role] : [...ownPath, 'hints'];
    const hints = (own ?? older)?.map((hint, index) => buildHint(hint, [...hintsPath, index])) ?? null;
    const hintParts = {
      hints,
      appendedHints,
      hintsPath: hints === null ? (everywhere === null ? null : ['kv_hint_policy']) : hintsPath,
    };
    if (value === null) {
      const path = older === null ? ['kv_hint_policy'] : hintsPath;
      entries[role] = { ...defaultEntry(path), ...hintParts };
    } else if ('bare' in value) {
      const policy = { kind: 'name', name: value.bare } as const;
      entries[role] = { ...defaultEntry(ownPath), policy, ...hintParts };
    } else {
      entries[role] = {
        policy: rolePolicy(value.type, value.instance),
        parameters: value.parameters ?? {},
        onCommitFailure: value.on_commit_failure,
        path: ownPath,
        ...hintParts,
      };
    }
  }
  return entries;
}

/** An entry of the default policy without hints. */
export function defaultEntry(path: ConfigPath): RoleSelectionEntry {
  return {
    policy: { kind: 'name', name: 'default' },
    parameters: {},
    onCommitFailure: 'degrade',
    hints: null,
    appendedHints: [],
    hintsPath: null,
    path,
  };
}

/** An entry that only lists hints keeps the default policy. */
function rolePolicy(type: string | null, instance: string | null): RoleSelectionEntry['policy'] {
  if (instance !== null) return { kind: 'instance', name: instance };
  return type === null ? { kind: 'name', name: 'default' } : { kind: 'type', type };
}

function buildHint(
  hint: {
    readonly type: string;
    readonly name: string | null;
    readonly parameters: unknown;
    readonly isolation: HintEntry['isolation'];
    readonly deadline: number | null;
  },
  path: readonly (string | number)[],
): HintEntry {
  const { type, name, parameters, isolation, deadline: deadlineMs } = hint;
  return { type, name: name ?? type, parameters, isolation, deadlineMs, path };
}
