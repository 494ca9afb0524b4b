// Names of a model's queues: by routing group and role among themselves, by model and role in metrics.
import type { RoadRequest } from './types.ts';

/** Key of a request's queue among those of its model. */
export function queueKey({ partition, role }: RoadRequest): string {
  return `${role} ${partition.routingGroup}`;
}

/** The routing group in a key; it may have blanks, and a role has none. */
export function groupOf(key: string): string {
  return key.slice(key.indexOf(' ') + 1);
}

/** Labels of a queue's metrics. */
export function labelsOf({ model, role }: { readonly model: string; readonly role: string }) {
  return { model, role };
}
