// A separate policy file, in the grammar of the Rust router's `--router-policy-config`: which keys it has, which of them mean
// something here, and how they join the configuration beside it.
import { resolve } from 'node:path';
import { problemsOf } from './issues.ts';
import { checkQueueProfile } from './queue-profile.ts';
import { routerQueueKeys } from './queue-settings.ts';
import { routerCostKeys } from './schema.ts';
import { queueKeys } from './schema-fleet.ts';
import type { ConfigPath, ConfigProblem, ConfigSource } from './types.ts';
import { flag, isRecord, mapping, orNull, positive, table, text, unread, whole, word } from './values.ts';

/** Sections that say the same in either file, so only one of the two may have each. */
const SHARED_SECTIONS = [
  'plugins',
  'worker_selection',
  'hint_policies',
  'kv_hint_policy',
  'request_classifier',
  'default_policy_family',
  'policy_classes',
  'uncached_isl_buckets',
] as const;

/** `router` keys that mean the same here; they are defaults, and the configuration's own win. */
const usedRouterKeys = () => ({
  ...routerCostKeys(),
  use_kv_events: orNull(flag()),
  router_ttl_secs: orNull(positive()),
  router_track_output_blocks: orNull(flag()),
  enable_session_prefix_index: orNull(flag()),
  ...routerQueueKeys(),
});

/** `router` keys of the Rust router that have no counterpart here. */
const unusedRouterKeys = () => ({
  router_replica_sync: orNull(flag()),
  router_track_active_blocks: orNull(flag()),
  router_assume_kv_reuse: orNull(flag()),
  router_track_prefill_tokens: orNull(flag()),
  router_tracking_hash: orNull(text()),
  router_tracking_key_file: orNull(text()),
  router_tracking_key_id: orNull(text()),
  router_prefill_load_model: orNull(word(['none', 'aic'])),
  router_approximate_cache_policy: orNull(text()),
  router_event_threads: orNull(whole(1)),
  use_remote_indexer: orNull(flag()),
  serve_indexer: orNull(flag()),
  shared_cache_type: orNull(word(['none', 'hicache'])),
  router_predicted_ttl_secs: orNull(positive()),
});

/** The whole grammar. What both files may say stays unread here: the schema of the configuration checks it once it is joined. */
const policySchema = mapping({
  ...Object.fromEntries(SHARED_SECTIONS.map((key) => [key, unread()])),
  router: orNull(mapping({ ...usedRouterKeys(), ...unusedRouterKeys() })),
  models: table(mapping(queueKeys()), 'models'),
});

/** A file as it was written, and where problems in it are shown. */
export interface WrittenFile {
  readonly written: Readonly<Record<string, unknown>>;
  readonly source: ConfigSource;
}

/** Two files in one. */
export interface JoinedFiles {
  /** The configuration with the policy file's sections in it. */
  readonly written: Readonly<Record<string, unknown>>;
  /** Errors of the policy file by itself, and sections that both have. Their `file` says where they stand. */
  readonly problems: readonly ConfigProblem[];
  /** Keys of the policy file that do nothing. */
  readonly warnings: readonly ConfigProblem[];
}

/** Checks a policy file and joins it to a configuration; neither is changed. */
export function joinPolicyFile(main: WrittenFile, policy: WrittenFile): JoinedFiles {
  const { file } = policy.source;
  const problems: ConfigProblem[] = [];
  const add = (code: ConfigProblem['code'], path: ConfigPath, message: string): void => {
    problems.push({ severity: 'error', code, path, anchor: 'key', message, file });
  };
  const parsed = policySchema.safeParse(policy.written);
  if (parsed.success) {
    for (const [name, profile] of Object.entries(parsed.data.models)) {
      checkQueueProfile(profile, ['models', name], (path, message, anchor = 'value') => {
        problems.push({ severity: 'error', code: 'PM_CONFIG_CONFLICT', path, anchor, message, file });
      });
    }
  } else {
    problems.push(...parsed.error.issues.flatMap(problemsOf).map((problem) => ({ ...problem, file })));
  }
  if (Object.values(policy.written).every((value) => value === null)) {
    const message = `the policy file defines nothing; it has at least one of ${[...SHARED_SECTIONS, 'router', 'models'].join(', ')}`;
    add('PM_CONFIG_MISSING', [], message);
  }
  const joined: Record<string, unknown> = { ...main.written };
  for (const key of SHARED_SECTIONS) {
    const value = policy.written[key] ?? null;
    if (value === null) continue;
    if ((main.written[key] ?? null) === null)
      joined[key] = key === 'plugins' ? pluginsFrom(policy.source.folder, value) : value;
    else
      add(
        'PM_CONFIG_CONFLICT',
        [key],
        `is also given at ${placeOf(main.source, [key])}; keep one of the two`,
      );
  }
  if (!parsed.success) return { written: joined, problems, warnings: [] };

  const { router } = policy.written;
  if (isRecord(router)) {
    const usedKeys = Object.keys(usedRouterKeys());
    const used = Object.entries(router).filter(([key, value]) => usedKeys.includes(key) && value !== null);
    // A section that is no mapping is reported as it stands.
    const own = main.written.router ?? {};
    if (isRecord(own) && used.length > 0)
      joined.router = { ...Object.fromEntries(used), ...withoutNull(own) };
  }
  const warnings = noEffect(policy);
  if (problems.length === 0) joinModels(joined, policy, main, { problems, warnings });
  return { written: joined, problems, warnings };
}

/** Queue profiles of models that the configuration has; it adds none. */
function joinModels(
  joined: Record<string, unknown>,
  policy: WrittenFile,
  main: WrittenFile,
  found: { readonly problems: ConfigProblem[]; readonly warnings: ConfigProblem[] },
): void {
  const { file } = policy.source;
  const configured = main.written.models ?? {};
  const profiles = policy.written.models;
  if (!isRecord(configured) || !isRecord(profiles)) return;
  const models: Record<string, unknown> = { ...configured };
  for (const [name, keys] of Object.entries(profiles)) {
    const given = isRecord(keys) ? withoutNull(keys) : {};
    const [first] = Object.keys(given);
    if (first === undefined) continue;
    const place = { path: ['models', name, first], anchor: 'key', file } as const;
    const own = Object.hasOwn(configured, name) ? (configured[name] ?? {}) : null;
    if (own === null) {
      const message = 'has no effect, as the configuration has no model of this name';
      found.warnings.push({ ...place, severity: 'warning', code: 'PM_CONFIG_NO_EFFECT', message });
      continue;
    }
    if (!isRecord(own)) continue;
    const twice = Object.keys(given).find((key) => (own[key] ?? null) !== null);
    if (twice === undefined) models[name] = { ...own, ...given };
    else {
      const path = ['models', name, twice];
      const message = `is also given at ${placeOf(main.source, path)}; keep one of the two`;
      found.problems.push({ ...place, path, severity: 'error', code: 'PM_CONFIG_CONFLICT', message });
    }
  }
  joined.models = models;
}

/** One warning per key that is valid and does nothing. */
function noEffect(policy: WrittenFile): ConfigProblem[] {
  const { file } = policy.source;
  const warnings: ConfigProblem[] = [];
  const warn = (path: ConfigPath, reason: string): void => {
    const message = `${reason}; it has no effect`;
    warnings.push({ severity: 'warning', code: 'PM_CONFIG_NO_EFFECT', path, anchor: 'key', message, file });
  };
  const { router } = policy.written;
  for (const [key, value] of Object.entries(isRecord(router) ? router : {})) {
    if (value === null) continue;
    const modelled = key === 'router_prefill_load_model';
    // The same as here.
    if (modelled && value === 'none') continue;
    const reason = modelled
      ? 'Pointsman foresees prefill by its own model throughput, set in the configuration'
      : 'Pointsman has no use for this key';
    if (Object.hasOwn(unusedRouterKeys(), key)) warn(['router', key], reason);
  }
  return warnings;
}

/** `router.yaml:3:1`, the place of a key, for a sentence about two of them. */
export function placeOf(source: ConfigSource, path: ConfigPath): string {
  const at = source.locate?.({
    severity: 'error',
    code: 'PM_CONFIG_CONFLICT',
    path,
    anchor: 'key',
    message: '',
  });
  const file = source.fileOf?.(path) ?? source.file;
  return at ? `${file}:${at.line}:${at.column}` : file;
}

/** Plugin files start from the folder of the file that names them. */
function pluginsFrom(folder: string, value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  return value.map((one: unknown) =>
    typeof one === 'string' && one.startsWith('.') ? resolve(folder, one) : one,
  );
}

function withoutNull(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== null));
}
