// Older spellings of hints: what they become, what is warned, what is refused.

import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';

const NOTHING = { env: {}, readFile: () => '' };

function load(text: string) {
  const { config, source, warnings } = parseConfig(text, 'policy.yaml', NOTHING);
  const names = Object.entries(config.workerSelection).map(([role, entry]) => {
    const hints = [...(entry?.hints ?? [{ name: '(default)' }]), ...(entry?.appendedHints ?? [])];
    return `${role}: ${hints.map(({ name }) => name).join(' ')}`;
  });
  return { config, names, warnings: warnings.map((warning) => source.render(warning)) };
}

function problems(text: string): string[] {
  try {
    parseConfig(text, 'policy.yaml', NOTHING);
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.report().split('\n');
  }
}

/** What a warning says to write, after its first line. */
const advice = (warning: string | undefined): string => (warning ?? '').split('\n').slice(1).join('\n');

test('hint_policies.<role> becomes the hints of the role, whatever its entry looks like', () => {
  const { config, names, warnings } = load(`worker_selection:
  prefill: sticky
  decode: { type: random, on_commit_failure: degrade }
  instances: [{ name: sticky, type: dynamo-default-cost-fn }]
hint_policies:
  aggregated: [{ type: a, parameters: { id: 18446744073709551615 } }]
  prefill: [{ type: b, name: first }, { type: b }]
  decode: [c]
`);
  expect(names.sort()).toEqual(['aggregated: a', 'decode: c', 'prefill: first b']);
  expect(config.workerSelection.aggregated?.hints?.[0]).toEqual({
    type: 'a',
    name: 'a',
    isolation: null,
    deadlineMs: null,
    parameters: { id: 18446744073709551615n },
    path: ['hint_policies', 'aggregated', 0],
  });
  expect(config.workerSelection.aggregated?.policy).toEqual({ kind: 'name', name: 'default' });
  expect(warnings).toEqual([
    `policy.yaml:5:1: hint_policies: is an older spelling of hints under worker_selection; write instead:
worker_selection:
  prefill:
    instance: sticky
    hints:
      - type: b
        name: first
      - type: b
  decode:
    type: random
    on_commit_failure: degrade
    hints:
      - type: c
  instances:
    - name: sticky
      type: dynamo-default-cost-fn
  aggregated:
    hints:
      - type: a
        parameters:
          id: 18446744073709551615`,
  ]);
});

test('the advice means the same as what was written, and needs no advice itself', () => {
  const text = `worker_selection: { decode: random, prefill: { hints: [{ type: a }] } }
hint_policies: { aggregated: [{ type: b }], decode: [{ type: c }] }
kv_hint_policy: { type: d, parameters: { x: 1 } }
`;
  const old = load(text);
  expect(old.warnings.map((warning) => warning.split('\n')[0])).toEqual([
    'policy.yaml:2:1: hint_policies: is an older spelling of hints under worker_selection; write instead of both:',
    'policy.yaml:3:1: kv_hint_policy: is an older spelling of hints under worker_selection; write instead of both:',
  ]);
  const today = load(advice(old.warnings[0]));
  expect(today.warnings).toEqual([]);
  // Encode had none of its own: its defaults go on in the old form, and the advice says so.
  expect(old.names.sort()).toEqual(['aggregated: b d', 'decode: c d', 'encode: (default) d', 'prefill: a d']);
  expect(today.names.sort()).toEqual(['aggregated: b d', 'decode: c d', 'encode: d', 'prefill: a d']);
  expect(advice(old.warnings[0])).toContain('# Where a role had no hints, those that run by default go on');
  const { decode } = (parse(advice(old.warnings[0])) as { worker_selection: Record<string, unknown> })
    .worker_selection;
  expect(decode).toEqual({ type: 'random', hints: [{ type: 'c' }, { type: 'd', parameters: { x: 1 } }] });
});

test('hints of one role in two spellings are refused with both places', () => {
  expect(
    problems(`worker_selection:
  decode:
    hints: [{ type: a }]
hint_policies:
  prefill: [{ type: a }]
  decode: []
`),
  ).toEqual([
    'policy.yaml:6:3: hint_policies.decode: hints of role decode are also given at policy.yaml:3:5; keep those, and remove these',
  ]);
  expect(
    problems(`kv_hint_policy: { type: a }
worker_selection: { prefill: { hints: [{ type: x, name: a }] } }
hint_policies: { decode: [{ type: b }, { type: a }] }
`),
  ).toEqual([
    'policy.yaml:1:1: kv_hint_policy: hint policy a of role prefill is also listed at policy.yaml:2:40; keep one of the two',
    'policy.yaml:1:1: kv_hint_policy: hint policy a of role decode is also listed at policy.yaml:3:40; keep one of the two',
  ]);
});

test('their form is checked in every router mode', () => {
  expect(problems('router: { mode: random }\nhint_policies: [a]\nkv_hint_policy: { name: b }')).toEqual([
    'policy.yaml:2:16: hint_policies: expected a mapping (keys: aggregated, prefill, decode, encode), found a list',
    'policy.yaml:3:1: kv_hint_policy.type: is required: a name of letters, digits, "_", "." and "-"',
  ]);
  expect(problems('hint_policies: { decode: { type: a }, default: [] }')).toEqual([
    'policy.yaml:1:26: hint_policies.decode: expected a list of hint policies, found a mapping',
    expect.stringContaining('policy.yaml:1:39: hint_policies.default: unknown key'),
  ]);
});

test('null counts as absent', () => {
  expect(load('hint_policies:\nkv_hint_policy:\n').warnings).toEqual([]);
});
