// The embedded engine: a pure core with a wire shell and a virtual shell.
export { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './core/create-engine.ts';
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
