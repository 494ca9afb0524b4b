// Every refusal of a configuration's policies, with its position and its whole text.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, parseConfig } from '../config/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { createPluginHost } from './index.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'host-'));
  writeFileSync(join(folder, 'broken.ts'), "throw new Error('broken');\n");
  writeFileSync(
    join(folder, 'mine.ts'),
    `import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
import { z } from 'zod';
export const pick = defineWorkerSelectionPolicy({
  type: 'mine',
  parameters: z.strictObject({
    limit: z.strictObject({ requests: z.int(), id: z.bigint().optional() }),
    list: z.array(z.strictObject({ name: z.string() })).default([]),
    fail: z.boolean().default(false),
  }),
  create: ({ parameters }) => {
    if (parameters.fail) throw new Error('no luck');
    return { picker: pickWorker({ pick: () => 0 }) };
  },
});
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function load(yaml: string) {
  const { config, source } = parseConfig(yaml, join(folder, 'policy.yaml'));
  return createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG });
}

/** All problems as the user sees them, without the folder. */
async function problems(yaml: string): Promise<string[]> {
  try {
    await load(yaml);
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    expect(thrown.code).toBe('PM_CONFIG_INVALID');
    return thrown.problems.map((problem) =>
      `${problem.severity === 'warning' ? 'warning ' : ''}${thrown.source.render(problem)}`.replaceAll(
        `${folder}/`,
        '',
      ),
    );
  }
  throw new Error('the configuration was accepted');
}

describe('a refusal names file, line, column and what would be right', () => {
  it.each<[string, string, string[]]>([
    [
      'an unknown type with the nearest one',
      'worker_selection:\n  decode:\n    type: dynamo-defualt-cost-fn\n',
      [
        'policy.yaml:3:11: worker_selection.decode.type: unknown worker-selection policy "dynamo-defualt-cost-fn"; known: dynamo-default-cost-fn, kvcr, device-aware-weighted, dynamo-two-tier-cost-fn, round-robin, random, power-of-two, least-loaded, direct, pointsman-expected-time, pointsman-tuned-cost (did you mean "dynamo-default-cost-fn"?)',
      ],
    ],
    [
      'types that may stand in a plugin that did not load, as what follows from that',
      'plugins: [./broken.ts, ./mine.ts]\nworker_selection: { decode: { type: other, hints: [{ type: hints }] } }\nrequest_classifier: asks\n',
      [
        'policy.yaml:1:11: plugins[0]: cannot load ./broken.ts: broken (thrown at broken.ts:1)',
        'policy.yaml:2:37: worker_selection.decode.type: unknown worker-selection policy "other"; ./broken.ts, which may define it, did not load',
        'policy.yaml:2:60: worker_selection.decode.hints[0].type: unknown hint policy "hints"; ./broken.ts, which may define it, did not load',
        'policy.yaml:3:21: request_classifier: unknown request classifier "asks"; ./broken.ts, which may define it, did not load',
      ],
    ],
    [
      'an unknown bare name, near an instance',
      'worker_selection:\n  decode: stiky\n  instances: [{ name: sticky, type: random }]\n',
      [
        'policy.yaml:2:11: worker_selection.decode: unknown worker-selection policy "stiky"; known: dynamo-default-cost-fn, kvcr, device-aware-weighted, dynamo-two-tier-cost-fn, round-robin, random, power-of-two, least-loaded, direct, pointsman-expected-time, pointsman-tuned-cost (did you mean "sticky"?)',
      ],
    ],
    [
      'an unknown instance',
      'worker_selection:\n  decode: { instance: nope }\n',
      [
        'policy.yaml:2:23: worker_selection.decode.instance: unknown instance "nope"; no instances are defined',
      ],
    ],
    [
      'a name that is an instance and a type',
      'worker_selection:\n  decode: random\n  instances: [{ name: random, type: random }]\n',
      [
        'policy.yaml:2:11: worker_selection.decode: random is the name of an instance and of a type; write { instance: random } or { type: random }',
      ],
    ],
    [
      'a hint policy where a worker-selection policy belongs, and the reverse',
      'worker_selection:\n  decode: kv_fetch\n  prefill: { hints: [{ type: random }] }\n',
      [
        'policy.yaml:3:30: worker_selection.prefill.hints[0].type: random is a worker-selection policy, not a hint policy; known hint policies: kv_fetch, kv_release_session, kv_retain_session',
        'policy.yaml:2:11: worker_selection.decode: kv_fetch is a hint policy; list it under hints, and choose a worker-selection policy: dynamo-default-cost-fn, kvcr, device-aware-weighted, dynamo-two-tier-cost-fn, round-robin, random, power-of-two, least-loaded, direct, pointsman-expected-time, pointsman-tuned-cost',
      ],
    ],
    [
      'an unknown hint',
      'worker_selection:\n  decode: { hints: [{ type: kv_fech }] }\n',
      [
        'policy.yaml:2:29: worker_selection.decode.hints[0].type: unknown hint policy "kv_fech"; known: kv_fetch, kv_release_session, kv_retain_session (did you mean "kv_fetch"?)',
      ],
    ],
    [
      'a committing policy that nobody sends for',
      'worker_selection:\n  decode: { type: kvcr, hints: [] }\n',
      [
        'policy.yaml:2:25: worker_selection.decode.hints: worker-selection policy kvcr of role decode commits KV copies, so exactly one of its hint policies must send them, but none does; list the built-in kv_fetch',
      ],
    ],
    [
      'a committing policy that two send for',
      'worker_selection:\n  decode: { type: kvcr, hints: [{ type: kv_fetch }, { type: kv_fetch, name: again }] }\n',
      [
        'policy.yaml:2:25: worker_selection.decode.hints: worker-selection policy kvcr of role decode commits KV copies, so exactly one of its hint policies must send them, but kv_fetch and again do; keep one, for example kv_fetch',
      ],
    ],
    [
      'hints off the KV path, once for all roles',
      'router: { mode: round-robin }\nworker_selection:\n  aggregated:\n    hints: [{ type: kv_fetch }]\n  prefill: { hints: [] }\n  decode:\n    hints: [{ type: kv_fetch }]\n',
      [
        "policy.yaml:4:5: worker_selection.aggregated.hints: hints for aggregated, decode run only on the KV path, but router mode round-robin routes without it; use router mode kv, or remove those roles' hints",
      ],
    ],
    [
      'a policy beside a mode that chooses itself',
      'router: { mode: random }\nworker_selection:\n  decode: least-loaded\n  prefill: default\n',
      [
        'policy.yaml:3:11: worker_selection.decode: router mode random chooses workers itself, so decode cannot use least-loaded; use router mode kv, or remove the entry',
      ],
    ],
    [
      'wrong, unknown and missing parameters, together',
      `plugins: [./mine.ts]
worker_selection:
  aggregated:
    type: mine
    parameters:
      limit: { requests: many }
      list:
        - name: fine
        - nmae: typo
      fial: true
  prefill:
    type: mine
    parameters:
      list: []
  decode: { type: kv_fetch }
  encode: { type: random, parameters: { weight: 1 } }
`,
      [
        'policy.yaml:6:26: worker_selection.aggregated.parameters.limit.requests: mine: Invalid input: expected number, received string',
        'policy.yaml:9:11: worker_selection.aggregated.parameters.list[1].name: mine: Invalid input: expected string, received undefined',
        'policy.yaml:9:11: worker_selection.aggregated.parameters.list[1].nmae: mine: unknown key "nmae" (did you mean "name"?)',
        'policy.yaml:10:7: worker_selection.aggregated.parameters.fial: mine: unknown key "fial" (did you mean "fail"?)',
        'policy.yaml:13:5: worker_selection.prefill.parameters.limit: mine: Invalid input: expected object, received undefined',
        'policy.yaml:15:19: worker_selection.decode.type: kv_fetch is a hint policy; list it under hints, and choose a worker-selection policy: dynamo-default-cost-fn, kvcr, device-aware-weighted, dynamo-two-tier-cost-fn, round-robin, random, power-of-two, least-loaded, direct, pointsman-expected-time, pointsman-tuned-cost, mine',
        'policy.yaml:16:41: worker_selection.encode.parameters.weight: random: unknown key "weight"',
      ],
    ],
    [
      'a create that throws, with its text',
      'plugins: [./mine.ts]\nworker_selection:\n  decode:\n    type: mine\n    parameters: { fail: true, limit: { requests: 1 } }\n',
      [
        'policy.yaml:3:3: worker_selection.decode: create of worker-selection policy mine threw for role decode: no luck',
      ],
    ],
    [
      'an instance used twice, once',
      'worker_selection:\n  decode: bad\n  prefill: bad\n  instances:\n    - { name: bad, type: random, parameters: { weight: 1 } }\n',
      ['policy.yaml:5:48: worker_selection.instances[0].parameters.weight: random: unknown key "weight"'],
    ],
  ])('%s', async (_, yaml, expected) => {
    expect(await problems(yaml)).toEqual(expected);
  });

  it('only warns of instances that no role uses', async () => {
    const host = await load(
      'worker_selection:\n  instances:\n    - { name: spare, type: rendom }\n    - { name: other, type: random, parameters: { weight: 1 } }\n',
    );
    expect(host.warnings.map(({ severity, message }) => [severity, message])).toEqual([
      [
        'warning',
        'unknown worker-selection policy "rendom"; known: dynamo-default-cost-fn, kvcr, device-aware-weighted, dynamo-two-tier-cost-fn, round-robin, random, power-of-two, least-loaded, direct, pointsman-expected-time, pointsman-tuned-cost (did you mean "random"?)',
      ],
      ['warning', 'random: unknown key "weight"'],
    ]);
  });

  it('asks for no sender where kvcr commits nothing, and runs kv_fetch by default where it does', async () => {
    const host = await load(
      'worker_selection:\n  decode: { type: kvcr, parameters: { shared_cache_multiplier: 0 }, hints: [] }\n  prefill: kvcr\n',
    );
    const roles = host
      .resolution()
      .map(({ role, needs, hints }) => [role, needs.copies, hints.map((h) => h.name)]);
    expect(roles.slice(1, 3)).toEqual([
      ['prefill', true, ['kv_fetch']],
      ['decode', false, []],
    ]);
  });

  it('keeps 64-bit parameters exact', async () => {
    const host = await load(
      'plugins: [./mine.ts]\nworker_selection: { decode: { type: mine, parameters: { limit: { requests: 1, id: 18446744073709551615 } } } }',
    );
    expect(host.resolution()[2]?.policy.type).toBe('mine');
    const seeded = await load(
      'worker_selection: { aggregated: { type: dynamo-default-cost-fn, parameters: { seed: 18446744073709551615 } } }',
    );
    expect(seeded.resolution()[0]?.policy.type).toBe('dynamo-default-cost-fn');
  });
});
