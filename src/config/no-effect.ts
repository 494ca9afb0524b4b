// Keys whose part of the router does not exist in this version: their shape is checked like any other, and each gives one
// warning, so that nobody believes in a setting that does nothing.

import { ROLES } from '../plugin/index.ts';
import type { FileValue } from './schema.ts';
import type { ConfigPath, ConfigProblem } from './types.ts';
import { isRecord } from './values.ts';

/** Warnings for a file that passed the schema; `written` is its plain value, where null and absent still differ. */
export function noEffectWarnings(file: FileValue, written: unknown): ConfigProblem[] {
  const warnings: ConfigProblem[] = [];
  const warn = (path: ConfigPath, message: string): void => {
    warnings.push({ severity: 'warning', code: 'PM_CONFIG_NO_EFFECT', path, anchor: 'key', message });
  };
  const unless = (usual: boolean, path: ConfigPath, message: string): void => {
    if (!usual) warn(path, `${message}; it has no effect in this version`);
  };

  const { router_queue_threshold: threshold, router_queue_policy: policy } = file.router;
  if (threshold !== null && file.policy_classes !== null) {
    warn(['router', 'router_queue_threshold'], 'has no effect, as every model has a queue profile');
  }
  if (policy !== null && (threshold === null || file.policy_classes !== null)) {
    const why =
      threshold === null ? ' without router.router_queue_threshold' : ', as every model has a queue profile';
    warn(['router', 'router_queue_policy'], `has no effect${why}`);
  }
  warnOfLimits(file.policy_classes, ['policy_classes'], warn);
  for (const [name, model] of Object.entries(file.models))
    warnOfLimits(model.policy_classes, ['models', name, 'policy_classes'], warn);
  for (const kind of ['kubernetes', 'nats'] as const) {
    unless(file.discovery[kind] === null, ['discovery', kind], `discovery through ${kind} is not built yet`);
  }
  const paces = Object.entries(file.models).filter(([, model]) => model.prefill_tokens_per_second !== null);
  if (file.router.router_prefill_load_model === 'throughput' && paces.length === 0) {
    warn(['router', 'router_prefill_load_model'], 'has no effect, as no model has prefill_tokens_per_second');
  }
  if (file.router.router_prefill_load_model === 'none') {
    const message = 'has no effect while router.router_prefill_load_model is none; set it to throughput';
    for (const [name] of paces) warn(['models', name, 'prefill_tokens_per_second'], message);
  }
  const affinity = writtenAt(written, 'router', 'session_affinity');
  if (file.router.session_affinity.mode === 'off' && isRecord(affinity) && !Object.hasOwn(affinity, 'mode')) {
    warn(['router', 'session_affinity'], 'has no effect without mode: soft, or mode: hard');
  }
  unless(!file.replicas.enabled, ['replicas', 'enabled'], 'replicas are not built yet');
  unless(file.observe.tracing.otlp === null, ['observe', 'tracing', 'otlp'], 'tracing is not built yet');
  for (const role of ROLES) {
    const entry = file.worker_selection?.[role];
    if (!entry || 'bare' in entry) continue;
    const path = ['worker_selection', role, 'hints'];
    if (entry.hints === null && isRecord(writtenAt(written, 'worker_selection', role))) {
      warn(path, 'has no value, which counts as absent; write hints: [] to run none');
    }
  }
  return warnings;
}

const LIMITS = [
  'request_queue_limit_per_worker',
  'raw_isl_token_queue_limit_per_worker',
  'cached_token_queue_limit_per_worker',
] as const;

/** Limits of classes in which nobody ever waits. */
function warnOfLimits(
  classes: FileValue['policy_classes'],
  path: ConfigPath,
  warn: (path: ConfigPath, message: string) => void,
): void {
  for (const [index, one] of (classes ?? []).entries()) {
    if (one.prefill_busy_threshold !== null || one.prefill_busy_threshold_frac !== null) continue;
    for (const key of LIMITS) {
      if (one[key] === null) continue;
      const why = 'nobody waits in a class without prefill_busy_threshold or prefill_busy_threshold_frac';
      warn([...path, index, key], `has no effect, as ${why}`);
    }
  }
}

function writtenAt(value: unknown, ...path: readonly string[]): unknown {
  let node = value;
  for (const step of path) node = isRecord(node) && Object.hasOwn(node, step) ? node[step] : undefined;
  return node;
}
