// The admin HTTP API on its own port.
export { createAdminServer } from './server.ts';
export type { AdminEvent, AdminEvents, AdminOptions, AdminServer } from './types.ts';
