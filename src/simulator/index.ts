// The embedded engine: a pure core with a wire shell and a virtual shell.
export { advertisedActions, DEFAULT_ENGINE_SETTINGS, isActionName } from './core/create-engine.ts';
export { DEFAULT_EVENT_HISTORY, MAX_EVENT_HISTORY } from './core/event-history.ts';
export type {
  FetchAnswer,
  FetchGrantRequest,
  FetchRefusal,
  PeerDirectory,
  SimulatedEngine,
  SimulatedEngineParts,
  SimulatedEngineSettings,
  SimulatedEngineStats,
  SimulatedHintOutcome,
  SimulatedRequest,
  SimulatorSink,
} from './types.ts';
export type {
  EventEncoder,
  VirtualEngine,
  VirtualEventLink,
  VirtualReplayListener,
} from './virtual/virtual-engine.ts';
export {
  VirtualFleet,
  type VirtualFleetOptions,
  type VirtualWorker,
} from './virtual/virtual-fleet.ts';
export { VirtualTime } from './virtual/virtual-time.ts';
export {
  DEFAULT_SIM_BODY_BYTES,
  MAX_SIMULATORS,
  type RunningSimulators,
  type SimulatorAddress,
  type StartSimulatorsOptions,
  startSimulators,
} from './wire/start-simulators.ts';
