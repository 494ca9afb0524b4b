// Builds the machine that a cache model asks for, after checking its settings.
import { PointsmanError } from '../../plugin/index.ts';
import type { SimulatedEngine, SimulatedEngineParts, SimulatedEngineSettings } from '../types.ts';
import { BlockListEngine } from './block-list-engine.ts';
import { PassEngine } from './engine.ts';
import { EXECUTED_ACTIONS } from './hint-plan.ts';

/**
 * Sizes of an H200-class rank under a mid-size model, as the Dynamo mocker has them; links of 100 Gbit/s. The host link is PCI
 * Express 5.0 ×16: 32 GT/s × 16 lanes × 128/130.
 */
export const DEFAULT_ENGINE_SETTINGS: SimulatedEngineSettings = {
  model: 'sim',
  blockSize: 16,
  kvBlocks: 16_384,
  hostKvBlocks: 0,
  hostGbps: 504,
  hashSeed: 0,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  speedup: 1,
  timing: 'default',
  cacheModel: 'engine',
  kvBytesPerToken: 131_072,
  nicGbps: 100,
  fetchLatencyMs: 1,
  fetchReserveTimeoutMs: 50,
  fetchTimeoutMs: 5000,
  role: 'aggregated',
  handoff: 'nixl',
  handoffTimeoutMs: 300_000,
  retainedShare: 0.25,
  actions: EXECUTED_ACTIONS,
  acceptedActions: [],
  seed: 0,
};

/**
 * A simulated rank.
 * @throws PM_SIM_SETTINGS when a setting is out of range.
 */
export function createSimulatedEngine(
  settings: SimulatedEngineSettings,
  parts: SimulatedEngineParts,
): SimulatedEngine {
  checkSettings(settings);
  return settings.cacheModel === 'block-list'
    ? new BlockListEngine(settings, parts)
    : new PassEngine(settings, parts);
}

/** As the router reads them in an advertisement. */
const ACTION_NAME = /^[A-Za-z0-9_.-]+@[0-9]+(\.[0-9]+)*$/;
const MAX_ACTION_NAME = 128;
const MAX_ACCEPTED_ACTIONS = 32;

/** Whether an action can be advertised: `type@version`, for example `acme.pin@1.0`. */
export function isActionName(name: string): boolean {
  return name.length <= MAX_ACTION_NAME && ACTION_NAME.test(name);
}

/** What an engine with these settings says it takes; null = it does not say. Without host memory there is nothing to prefetch from. */
export function advertisedActions(
  settings: Pick<SimulatedEngineSettings, 'actions' | 'acceptedActions' | 'hostKvBlocks'>,
): readonly string[] | null {
  const { acceptedActions, actions, hostKvBlocks } = settings;
  const able = actions?.filter((name) => hostKvBlocks > 0 || name !== 'kv.prefetch@1.0');
  return able === undefined ? null : [...new Set([...able, ...acceptedActions])];
}

const MAX_BLOCKS = 64 * 1024 * 1024;

/** As long as the router reads names in an advertisement. */
const MAX_MODEL_NAME = 1024;

function checkSettings(settings: SimulatedEngineSettings): void {
  if (settings.model.length < 1 || settings.model.length > MAX_MODEL_NAME) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `the simulated engine's model name has ${settings.model.length} characters; it must have 1 to ${MAX_MODEL_NAME}`,
    );
  }
  const { acceptedActions } = settings;
  const wrong = acceptedActions.find((name) => !isActionName(name));
  if (wrong !== undefined || acceptedActions.length > MAX_ACCEPTED_ACTIONS) {
    const problem =
      wrong === undefined
        ? `has ${acceptedActions.length} accepted actions, at most ${MAX_ACCEPTED_ACTIONS} are possible`
        : `cannot accept the action "${wrong.slice(0, MAX_ACTION_NAME)}"; it must look like acme.pin@1.0`;
    throw new PointsmanError('PM_SIM_SETTINGS', `the simulated engine ${problem}`);
  }
  requireInteger('blockSize', settings.blockSize, 1, 1_048_576);
  if (settings.kvBlocks !== null) requireInteger('kvBlocks', settings.kvBlocks, 1, MAX_BLOCKS);
  requireInteger('hostKvBlocks', settings.hostKvBlocks, 0, MAX_BLOCKS);
  requirePositive('hostGbps', settings.hostGbps);
  if (settings.hostKvBlocks > 0 && (settings.kvBlocks === null || settings.cacheModel !== 'engine')) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      'the simulated engine has host blocks, which takes a bounded number of KV blocks and the cache model "engine"',
    );
  }
  requireInteger('hashSeed', settings.hashSeed, 0, Number.MAX_SAFE_INTEGER);
  requireInteger('maxNumSeqs', settings.maxNumSeqs, 1, 1_048_576);
  requireInteger('maxNumBatchedTokens', settings.maxNumBatchedTokens, 1, 1_073_741_824);
  requireInteger('seed', settings.seed, 0, Number.MAX_SAFE_INTEGER);
  requirePositive('speedup', settings.speedup);
  if (!(settings.retainedShare >= 0 && settings.retainedShare <= 1)) {
    throw invalid('retainedShare', settings.retainedShare, 'a number from 0 to 1');
  }
  requirePositive('kvBytesPerToken', settings.kvBytesPerToken);
  requirePositive('nicGbps', settings.nicGbps);
  requirePositive('fetchReserveTimeoutMs', settings.fetchReserveTimeoutMs);
  requirePositive('fetchTimeoutMs', settings.fetchTimeoutMs);
  requirePositive('handoffTimeoutMs', settings.handoffTimeoutMs);
  if (settings.role !== 'aggregated' && settings.cacheModel !== 'engine') {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `the simulated engine has the role ${settings.role}, which takes the cache model "engine"`,
    );
  }
  if (!(settings.fetchLatencyMs >= 0 && settings.fetchLatencyMs < Number.POSITIVE_INFINITY)) {
    throw invalid('fetchLatencyMs', settings.fetchLatencyMs, 'a number from 0');
  }
}

function requireInteger(name: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw invalid(name, value, `a whole number from ${least} to ${most}`);
}

function requirePositive(name: string, value: number): void {
  if (value > 0 && value < Number.POSITIVE_INFINITY) return;
  throw invalid(name, value, 'a number above 0');
}

function invalid(name: string, value: number, right: string): PointsmanError {
  return new PointsmanError(
    'PM_SIM_SETTINGS',
    `the simulated engine's ${name} is ${value}; it must be ${right}`,
    { details: { setting: name, value } },
  );
}
