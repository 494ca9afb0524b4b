// Keys of the sessions that one request may ask about: those of its partition and tenant.
import { type SessionKey, sessionKey } from '../kv/index.ts';
import { type Partition, PointsmanError } from '../plugin/index.ts';

/** Sessions of one partition and tenant by id. */
export class SessionKeys {
  readonly #partition: Partition;
  readonly #tenant: string | null;

  /** @param tenant the cache salt, as engines tell of it too; null = none. */
  constructor(partition: Partition, tenant: string | null) {
    this.#partition = partition;
    this.#tenant = tenant;
  }

  /** Null for an id, or a tenant, that no session can have. */
  of(sessionId: string): SessionKey | null {
    try {
      return sessionKey(this.#partition, this.#tenant, sessionId);
    } catch (thrown) {
      if (thrown instanceof PointsmanError && thrown.code === 'PM_KV_ARGUMENT') return null;
      throw thrown;
    }
  }
}
