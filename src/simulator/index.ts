// The embedded engine: a pure core with a wire shell and a virtual shell.
export type {
  PeerDirectory,
  SimulatedEngine,
  SimulatedEngineSettings,
  SimulatedHintOutcome,
  SimulatedRequest,
  SimulatorSink,
} from './types.ts';
