import { expect, test } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { defaultConfig, parseConfig } from './load.ts';
import { applyOverrides, overridesFromEnv } from './overrides.ts';

const { config } = parseConfig(
  [
    'worker_selection:',
    '  decode: { type: kvcr, parameters: { shared_cache_multiplier: 0.5 }, on_commit_failure: release, hints: [{ type: mark }] }',
    '  aggregated: sticky',
  ].join('\n'),
  'policy.yaml',
  { env: {}, readFile: () => '' },
);

test('an override replaces the policy of its role, drops its parameters and keeps its hints', () => {
  const { decode } = applyOverrides(config, { decodePolicy: 'random' }).workerSelection;
  expect(decode).toEqual({
    policy: { kind: 'name', name: 'random' },
    parameters: {},
    onCommitFailure: 'release',
    hints: config.workerSelection.decode?.hints,
    appendedHints: [],
    hintsPath: ['worker_selection', 'decode', 'hints'],
    path: ['worker_selection', 'decode'],
  });
  expect(config.workerSelection.decode?.policy).toEqual({ kind: 'type', type: 'kvcr' });
});

test('the override of one role wins over the one for all roles, which wins over the file', () => {
  const { workerSelection } = applyOverrides(config, {
    workerSelectionPolicy: 'random',
    prefillPolicy: 'default',
  });
  expect(Object.entries(workerSelection).map(([role, entry]) => [role, entry?.policy])).toEqual([
    ['aggregated', { kind: 'name', name: 'random' }],
    ['decode', { kind: 'name', name: 'random' }],
    ['prefill', { kind: 'name', name: 'default' }],
    ['encode', { kind: 'name', name: 'random' }],
  ]);
});

test('without overrides the configuration is as it was', () => {
  expect(applyOverrides(config, overridesFromEnv({ DYN_ROUTER_DECODE_POLICY: '' }))).toEqual(config);
});

test('the environment names roles, all roles and the log level', () => {
  expect(
    overridesFromEnv({
      DYN_ROUTER_PREFILL_POLICY: 'a',
      DYN_ROUTER_DECODE_POLICY: 'b',
      DYN_ROUTER_WORKER_SELECTION_POLICY: 'c',
      POINTSMAN_LOG_LEVEL: 'debug',
    }),
  ).toEqual({ prefillPolicy: 'a', decodePolicy: 'b', workerSelectionPolicy: 'c', logLevel: 'debug' });
});

test('router mode and log level replace the file', () => {
  const changed = applyOverrides(defaultConfig().config, { routerMode: 'least-loaded', logLevel: 'warn' });
  expect([changed.router.mode, changed.observe.logLevel]).toEqual(['least-loaded', 'warn']);
});

test('an unknown router mode is a usage error with the nearest one', () => {
  expect(() => applyOverrides(config, { routerMode: 'roundrobin' })).toThrow(
    new PointsmanError('PM_USAGE', 'unknown router mode "roundrobin" (did you mean "round-robin"?)'),
  );
  expect(() => applyOverrides(config, { logLevel: 'loud' })).toThrow(
    new PointsmanError(
      'PM_USAGE',
      'unknown log level "loud"; known: trace, debug, info, warn, error, fatal, silent',
    ),
  );
});
