// The one function that walks a request through the steps.
export type {
  ResponseSink,
  Road,
  RoadRequest,
  RoadTicket,
  RoutingConstraints,
  TokensSource,
} from './types.ts';
