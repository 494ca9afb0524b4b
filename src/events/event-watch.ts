// Port for whoever compares what engines announce with what they are sent.
import type { OwnerSlot } from '../kv/index.ts';
import type { KvEventBatch } from './types.ts';

/** Hears of every stream, beside the index. Must not throw. */
export interface EventWatch {
  /**
   * A live message came on a connection; before it is put in order.
   * @param timestamp of its batch, seconds by the engine's clock; null = none that can be used.
   */
  arrived(connection: OwnerSlot, sequence: number, timestamp: number | null): void;
  /**
   * A batch was applied, live or as an answer.
   * @param owner whose it is by the rank that it names.
   * @param connection on whose connection it came.
   */
  applied(owner: OwnerSlot, connection: OwnerSlot, batch: KvEventBatch): void;
  /** The index forgot what an owner holds. */
  forgotten(owner: OwnerSlot): void;
  /** Another process speaks for an owner. */
  restarted(owner: OwnerSlot): void;
}
