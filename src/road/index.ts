// The one function that walks a request through the steps.
export type { LookupDeps } from './prompt-lookup.ts';
export { createRoad, type RoadDeps } from './road.ts';
export type {
  LateHintOutcome,
  ResponseSink,
  Road,
  RoadRequest,
  RoadTicket,
  RoutingConstraints,
  TokensSource,
} from './types.ts';
