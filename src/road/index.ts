// The one function that walks a request through the steps.

export { admitDirectly, countRefusal } from './admission.ts';
export { agentHeadersOf, type DistinctHeaders, sessionBytes } from './agent-headers.ts';
export {
  type CallerPart,
  type CallerSink,
  type CallerTransport,
  type Choice,
  type GivenPrompt,
  NO_REPORT,
  type Projection,
} from './caller-part.ts';
export { createDisaggregatedRoad } from './disaggregation/disaggregated-road.ts';
export type { LookupDeps, PromptLookup } from './prompt-lookup.ts';
export { createRoad } from './road.ts';
export type { RoadDeps } from './road-deps.ts';
export { sessionWithin } from './session-namespace.ts';
export type { SessionPorts, SessionRequest, SessionScope } from './session-ports.ts';
export {
  type AnsweredRequest,
  type Beliefs,
  type ChoosingRoad,
  type LateHintOutcome,
  NO_CONSTRAINTS,
  type ResponseSink,
  type Road,
  type RoadRequest,
  type RoadTicket,
  type RoutingConstraints,
  type TokensSource,
} from './types.ts';
