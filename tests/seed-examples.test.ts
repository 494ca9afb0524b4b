// Configuration as the three designs of hint policies have it, each in its own spelling: all of them parse and resolve.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import {
  applyOverrides,
  type LoadedConfig,
  loadConfig,
  loadPolicyFile,
  parseConfig,
} from '../src/config/index.ts';
import { createPluginHost } from '../src/host/index.ts';
import { ManualClock, NO_LOG } from '../src/plugin/index.ts';

const folder = fileURLToPath(new URL('fixtures/seeds', import.meta.url));
const WAYS = { 'as a configuration': loadConfig, 'as a policy file': loadPolicyFile };

/** `prefill: P with H1, H2`, for roles that are not as in an empty file. */
async function roles({ config, source }: LoadedConfig): Promise<string[]> {
  const host = await createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG });
  const found = host.resolution().map(({ hints, policy, role }) => {
    return `${role}: ${policy.type} with ${hints.map(({ name }) => name).join(', ') || 'none'}`;
  });
  await host.dispose();
  return found.filter((line) => !line.endsWith(': dynamo-default-cost-fn with none'));
}

const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  'hint-policies-by-role.yaml': ['prefill: P with H1, H2'],
  'hint-policies-off-the-kv-path.yaml': ['aggregated: dynamo-default-cost-fn with H1'],
  'one-hint-policy.yaml': ['aggregated', 'prefill', 'decode', 'encode'].map(
    (role) => `${role}: dynamo-default-cost-fn with retain-session`,
  ),
  'hints-of-a-role.yaml': ['decode: dynamo-default-cost-fn with harness_prefetch'],
  'bare-entry-and-names.yaml': ['decode: dynamo-default-cost-fn with kv_fetch, little, much'],
};

it('every fixture is tried', () => {
  expect(
    readdirSync(folder)
      .filter((name) => name.endsWith('.yaml'))
      .sort(),
  ).toEqual(Object.keys(EXPECTED).sort());
});

for (const [way, load] of Object.entries(WAYS)) {
  it.each(Object.entries(EXPECTED))(`%s resolves ${way}`, async (name, expected) => {
    expect(await roles(load(join(folder, name)))).toEqual(expected);
  });
}

it.each(['hint-policies-by-role.yaml', 'one-hint-policy.yaml', 'hint-policies-off-the-kv-path.yaml'])(
  '%s is told how it is written today, and that resolves to the same',
  async (name) => {
    const old = loadConfig(join(folder, name));
    expect(old.warnings.map(({ code }) => code)).toEqual(['PM_CONFIG_DEPRECATED']);
    const yaml = (old.warnings[0]?.message ?? '').split('\n').slice(1).join('\n');
    const today = parseConfig(`plugins: [./policies.ts]\n${yaml}`, join(folder, 'today.yaml'));
    expect(today.warnings).toEqual([]);
    expect(await roles(today)).toEqual(await roles(old));
  },
);

it('listed hints do not go with a mode that routes off the KV path, in whatever spelling', async () => {
  const refusal = async (name: string): Promise<string> => {
    const loaded = loadConfig(join(folder, name));
    const config = applyOverrides(loaded.config, { routerMode: 'round-robin' });
    return roles({ ...loaded, config }).then(
      () => 'resolved',
      (thrown: Error) => thrown.message.replace(folder, ''),
    );
  };
  const because =
    'run only on the KV path, but router mode round-robin routes without it; use router mode kv, or remove those';
  expect(await refusal('hint-policies-off-the-kv-path.yaml')).toBe(
    `/hint-policies-off-the-kv-path.yaml:3:3: hint_policies.aggregated: hints for aggregated ${because} roles' hints`,
  );
  expect(await refusal('one-hint-policy.yaml')).toBe(
    `/one-hint-policy.yaml:2:1: kv_hint_policy: hints for aggregated, prefill, decode, encode ${because} roles' hints`,
  );
});

it('a hint policy of every role runs behind the ones that a role lists', async () => {
  const text =
    'plugins: [./policies.ts]\nkv_hint_policy: { type: H1 }\nworker_selection: { decode: { hints: [{ type: H2 }] } }';
  expect(await roles(parseConfig(text, join(folder, 'x.yaml')))).toEqual([
    'aggregated: dynamo-default-cost-fn with H1',
    'prefill: dynamo-default-cost-fn with H1',
    'decode: dynamo-default-cost-fn with H2, H1',
    'encode: dynamo-default-cost-fn with H1',
  ]);
});
