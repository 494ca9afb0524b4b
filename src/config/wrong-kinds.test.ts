// Every key of the configuration with a value of every wrong kind: one problem, at the value, naming the key.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';
import type { ConfigSurroundings } from './secrets.ts';
import { renderPath } from './text-source.ts';
import type { ConfigPath } from './types.ts';

const SECRETS: ConfigSurroundings = {
  env: { POINTSMAN_ADMIN_TOKEN: 'secret', TEAM_A_KEY_SHA256: 'ab'.repeat(32) },
  readFile: (path) => (path.endsWith('policy.yaml') ? 'router: { router_event_threads: 1 }' : 'secret'),
};
const MARK = 'THE-VALUE-UNDER-TEST';
/** Values as they are written in the file. */
const KINDS = {
  'a word': 'zzz',
  'an empty string': '""',
  'a number': '7',
  'a negative number': '-7',
  'a fraction': '0.3',
  'an absurd number': '1e300',
  'a number beyond 64 bits': '99999999999999999999999',
  infinity: '.inf',
  'no number': '.nan',
  'a boolean': 'true',
  'a date': '2026-01-01',
  'a list': '[[]]',
  'a mapping': '{ zzz: 1 }',
} as const;
type Kind = keyof typeof KINDS;

/** The documented example with the keys that it leaves out. */
function completeExample(): Record<string, unknown> {
  const text = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
  const example = /## A complete example\n+```yaml\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
  const file = parse(example) as Record<string, unknown>;
  const profile = {
    default_policy_family: 'standard',
    policy_classes: [
      {
        name: 'n',
        policy_family: 'standard',
        cache_bucket: 'any',
        queue_policy: 'fcfs',
        quantum: 1,
        prefill_busy_threshold: 1,
        prefill_busy_threshold_frac: 0.5,
        busy_worker_ratio: 0.5,
        request_queue_limit_per_worker: 1,
        raw_isl_token_queue_limit_per_worker: 1,
        cached_token_queue_limit_per_worker: 1,
      },
    ],
    uncached_isl_buckets: [{ min_tokens: 0, bucket: 'any' }],
  };
  Object.assign(file, profile, {
    router_policy_config: './policy.yaml',
    services: { selection: { port: 1 }, indexer: { port: 2 } },
    discovery: { none: {}, kubernetes: {}, nats: {} },
    request_classifier: { type: 't', parameters: {}, max_wait: '1s', isolation: 'thread', deadline: '1s' },
    observe: { candidates: 64, log_level: 'info', tracing: { otlp: 'http://127.0.0.1:1' } },
  });
  const more = { ...structuredClone(profile), prefill_tokens_per_second: 8000 };
  Object.assign((file.models as Record<string, object>).tiny!, more);
  const selection = file.worker_selection as Record<string, object>;
  selection.encode = {
    type: 't',
    on_commit_failure: 'release',
    hints: [{ type: 'h', name: 'n', parameters: {}, isolation: 'thread', deadline: '1s' }],
  };
  selection.prefill = { instance: 'sticky' };
  return file;
}

/** Every path of a value, parents before children. */
function pathsOf(value: unknown, path: ConfigPath = []): ConfigPath[] {
  const inside =
    typeof value === 'object' && value !== null
      ? Object.entries(value).flatMap(([key, item]) =>
          pathsOf(item, [...path, Array.isArray(value) ? Number(key) : key]),
        )
      : [];
  return path.length === 0 ? inside : [path, ...inside];
}

const TEXT: Kind[] = ['a word', 'a date'];
const ANY_TEXT: Kind[] = [...TEXT, 'an empty string'];
const WHOLE: Kind[] = ['a number'];
const DECIMAL: Kind[] = ['a number', 'a fraction'];
/** Kinds that are right for a key after all; the first pattern that fits its path counts. Mappings say it of their own keys. */
const RIGHT: readonly (readonly [RegExp, readonly Kind[]])[] = [
  [/^(listen|admin)\.port$|^services\.\w+\.port$/, WHOLE],
  [/^limits\.(prompt_tokens|concurrent_requests)$/, WHOLE],
  [/^workers\[0\]\.(id|max_num_batched_tokens|total_kv_blocks|ranks\.first|ranks\.count)$/, WHOLE],
  [/^models\.tiny\.block_size$|^router\.seed$|\.max_sessions$|^observe\.candidates$/, WHOLE],
  [
    /\.(quantum|min_tokens|prefill_busy_threshold)$|_limit_per_worker$|\.breaker\.(failures|overruns)$/,
    WHOLE,
  ],
  [/_hit_weight$|busy_worker_ratio$/, ['a fraction']],
  [/^router\.router_ttl|_frac$|_per_second$|_expiry_secs$/, [...DECIMAL, 'an absurd number']],
  [/^router\.(overlap|prefill|decode|router_temp)/, DECIMAL],
  [
    /^router\.(use_kv_events|router_track_output_blocks|enable_session_prefix_index)$|^replicas\.enabled$|^observe\.engine_load$|^parity\.(probe_prompts|ask_token_ids)$/,
    ['a boolean'],
  ],
  [/\.topic$/, ANY_TEXT],
  [/\.parameters$|^discovery\.(kubernetes|nats)$/, ['a mapping']],
  [/^workers\[0\]\.capabilities$/, ['a mapping']],
  [/\.parameters[.[]/, Object.keys(KINDS) as Kind[]],
  [/^worker_selection\.(aggregated|prefill|decode|encode)$|^request_classifier$/, TEXT],
  [/^worker_selection\.[\w.[\]]+(type|instance|name)$|^request_classifier\.type$/, TEXT],
  [
    /\.(url|connect|replay|dialect|role|mode|log_level|source|drain|queue_policy|isolation|deadline|max_wait)$/,
    [],
  ],
  [/_bytes$|overload_status|sha256$|token$|on_commit_failure$|trust_|containment\./, []],
  [
    /\.(host|name|tenant|served_as|routing_group|tokenizer|template|policy_family|cache_bucket|bucket)$/,
    TEXT,
  ],
  [
    /aliases\[|taints\[|topology\.|api_keys\[0\]\.models\[|\.otlp$|^router_policy_config$|^router\.timing_profile$|^snapshot\.path$|^plugins\[/,
    TEXT,
  ],
  [/default_policy_family$/, TEXT],
];

function positionOf(text: string): { line: number; column: number } {
  const lines = text.slice(0, text.indexOf(MARK)).split('\n');
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

/** What is wrong with a text: which key, and where it is shown. */
function problemsOf(text: string): { name: string; line: number; column: number }[] {
  try {
    parseConfig(text, 'router.yaml', SECRETS);
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.problems.map((problem) => ({
      name: renderPath(problem.path),
      ...(thrown.source.locate?.(problem) ?? { line: 0, column: 0 }),
    }));
  }
}

const example = completeExample();
/** A secret's place is one value: what is wrong in it is said of the secret. */
const paths = pathsOf(example).filter((path) => path.at(-1) !== 'env');

test('the example with every key is right', () => {
  expect(problemsOf(stringify(example))).toEqual([]);
  expect(paths.length).toBeGreaterThan(150);
});

test.each(paths.map((path) => [renderPath(path), path] as const))('%s of a wrong kind', (name, path) => {
  // Only the section at hand and what it refers to, as each text is parsed a dozen times.
  const section = String(path[0]);
  const changed: Record<string, unknown> = structuredClone({
    ...(section === 'workers' ? { models: example.models } : {}),
    [section]: example[section],
  });
  const last = path[path.length - 1] ?? '';
  const parent = path.slice(0, -1).reduce<unknown>((node, step) => Reflect.get(Object(node), step), changed);
  const before: unknown = Reflect.get(Object(parent), last);
  Reflect.set(Object(parent), last, MARK);
  const marked = stringify(changed, { lineWidth: 0 });
  const { line, column } = positionOf(marked);
  const right = RIGHT.find(([pattern]) => pattern.test(name))?.[1] ?? [];
  const isMapping = typeof before === 'object' && before !== null && !Array.isArray(before);
  for (const [kind, written] of Object.entries(KINDS)) {
    if (right.some((one) => one === kind) || (isMapping && kind === 'a mapping')) continue;
    const problems = problemsOf(marked.replace(MARK, written));
    // In a list or a mapping the problem may be its first item.
    const inside = kind === 'a list' || kind === 'a mapping';
    const shown = problems.map((problem) => ({
      name: problem.name.slice(0, name.length),
      line: problem.line,
      column: inside && problem.name !== name ? column : problem.column,
    }));
    expect({ kind, shown }).toEqual({ kind, shown: [{ name, line, column }] });
  }
});
