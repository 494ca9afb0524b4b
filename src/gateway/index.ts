// The HTTP surface: OpenAI requests in, relayed answers out.
export { createGateway, type Gateway } from './gateway.ts';
export type { GatewayDeps } from './gateway-deps.ts';
export { SpeculativePrefills } from './speculative-prefills.ts';
