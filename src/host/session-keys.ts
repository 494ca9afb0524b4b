// Keys of the sessions that one request may ask about: those of its partition and tenant.
import { type SessionKey, sessionKeyPrefix, sessionKeyWithin } from '../kv/index.ts';
import { type Partition, PointsmanError } from '../plugin/index.ts';

/** Sessions of one partition and tenant by id. */
export class SessionKeys {
  readonly partition: Partition;
  readonly tenant: string | null;
  /** What they begin with. */
  readonly #prefix: string;

  /** @param tenant as `sessionTenant` names it; null = none. */
  constructor({ model, routingGroup }: Partition, tenant: string | null) {
    this.partition = { model, routingGroup };
    this.tenant = tenant;
    this.#prefix = sessionKeyPrefix(this.partition, tenant);
  }

  /** Whether they are those of a partition and tenant. */
  areOf({ model, routingGroup }: Partition, tenant: string | null): boolean {
    const { partition } = this;
    return partition.model === model && partition.routingGroup === routingGroup && this.tenant === tenant;
  }

  /** Null for an id that no session can have. */
  of(sessionId: string): SessionKey | null {
    try {
      return sessionKeyWithin(this.#prefix, sessionId);
    } catch (thrown) {
      if (thrown instanceof PointsmanError && thrown.code === 'PM_KV_ARGUMENT') return null;
      throw thrown;
    }
  }
}
