// The embedded engine: a pure core with a wire shell and a virtual shell.
export {
  advertisedActions,
  createSimulatedEngine,
  DEFAULT_ENGINE_SETTINGS,
  isActionName,
} from './core/create-engine.ts';
export {
  type EventFaultSettings,
  MAX_EVENT_DELAY_MS,
  MAX_REORDER_WINDOW,
  NO_EVENT_FAULTS,
} from './core/event-faults.ts';
export { DEFAULT_EVENT_HISTORY, EventHistory, MAX_EVENT_HISTORY } from './core/event-history.ts';
export { ExternalHasher } from './core/external-chain.ts';
export type { RetainDirective } from './core/hint-payloads.ts';
export { type HintPlan, planHints, type WorkPlan } from './core/hint-plan.ts';
export { type RetainAction, type RetainDeclaration, Retentions } from './core/retentions.ts';
export { promptMs } from './core/timing.ts';
export { DOUBLE_FAULT_NAMES, type DoubleFaults, readDoubleFault } from './doubles/double-faults.ts';
export type { DoubleRequest } from './doubles/double-server.ts';
export {
  type LlamaServerDouble,
  type LlamaServerOptions,
  startLlamaServer,
} from './doubles/llamacpp/llamacpp-double.ts';
export { type LlamaServe, readLlamaServe } from './doubles/llamacpp/llamacpp-serve.ts';
export {
  type SglangDouble,
  type SglangDoubleOptions,
  startSglangDouble,
} from './doubles/sglang/sglang-double.ts';
export { readSglangServe, type SglangServe } from './doubles/sglang/sglang-serve.ts';
export {
  type DoubleHints,
  startVllmDouble,
  type VllmDouble,
  type VllmDoubleOptions,
} from './doubles/vllm-double.ts';
export { readVllmServe } from './doubles/vllm-serve.ts';
export { advertisedHandoff } from './handoff-fields.ts';
export type {
  EngineRestart,
  FetchAnswer,
  FetchGrantRequest,
  FetchRefusal,
  HandoffKind,
  PeerDirectory,
  SimulatedEngine,
  SimulatedEngineParts,
  SimulatedEngineSettings,
  SimulatedEngineStats,
  SimulatedHintOutcome,
  SimulatedRequest,
  SimulatedResult,
  SimulatedRole,
  SimulatorSink,
  TimingName,
} from './types.ts';
export { HANDOFF_KINDS, TIMING_NAMES } from './types.ts';
export { BlockEnds } from './virtual/block-ends.ts';
export type { VirtualEngine } from './virtual/virtual-engine.ts';
export type {
  EventEncoder,
  VirtualEventLink,
  VirtualReplayListener,
} from './virtual/virtual-event-stream.ts';
export {
  VirtualFleet,
  type VirtualFleetOptions,
  type VirtualWorker,
} from './virtual/virtual-fleet.ts';
export { VirtualTime } from './virtual/virtual-time.ts';
export { EngineDriver } from './wire/engine-driver.ts';
export { bindEventPublisher, type EventPublisher } from './wire/event-publisher.ts';
export { bindEventReplay, type EventReplay } from './wire/event-replay.ts';
export {
  MAX_SIMULATORS,
  type RunningSimulators,
  type SimulatorAddress,
  type StartSimulatorsOptions,
  startSimulators,
} from './wire/start-simulators.ts';
export { DEFAULT_SIM_BODY_BYTES } from './wire/wire-engine.ts';
