// Partitions whose policies cannot be created: each is refused with the reason while others serve, and tried again after a pause, so
// that a `create` that always throws does not run for every request.
import {
  type Clock,
  errorText,
  type Logger,
  type Partition,
  PointsmanError,
  type Role,
} from '../plugin/index.ts';

/** After this long, in ms, a partition that could not be served is tried again. */
export const SITE_RETRY_MS = 10_000;

/** A partition that a role cannot serve. */
export interface SiteFailure {
  readonly partition: Partition;
  readonly role: Role;
  /** Without what plugins threw, which clients must not see. */
  readonly reason: string;
  /** What the plugin threw; null when it threw nothing. For operators. */
  readonly cause: string | null;
  /** The pause is over: the next request tries again. */
  readonly due: boolean;
}

interface Failed extends Omit<SiteFailure, 'due'> {
  readonly error: PointsmanError;
  readonly key: string;
  readonly retryAt: number;
}

/** Remembers them. */
export class SiteFailures {
  readonly #clock: Clock;
  readonly #log: Logger;
  /** By partition and role: what a block size that was only guessed at left behind goes with the next try. */
  readonly #failed = new Map<string, Failed>();

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Calls `create`, unless it failed a moment ago.
   * @param key what is created: partition, role, and a block size that may first have been guessed at.
   * @throws PointsmanError PM_PARTITION_NOT_READY, the failure as its cause.
   */
  attempt<T>(key: string, partition: Partition, role: Role, create: () => T): T {
    const site = [partition.model, partition.routingGroup, role].join('\u0000');
    const known = this.#failed.get(site);
    if (known?.key === key && this.#clock.now() < known.retryAt) throw known.error;
    try {
      const created = create();
      this.#failed.delete(site);
      return created;
    } catch (thrown) {
      const failed = this.#failureOf(key, partition, role, thrown);
      this.#failed.set(site, failed);
      throw failed.error;
    }
  }

  /** In the order in which they failed first. */
  list(): readonly SiteFailure[] {
    const now = this.#clock.now();
    return [...this.#failed.values()].map(({ partition, role, reason, cause, retryAt }) => {
      return { partition, role, reason, cause, due: now >= retryAt };
    });
  }

  #failureOf(key: string, partition: Partition, role: Role, thrown: unknown): Failed {
    const { model, routingGroup } = partition;
    const group = routingGroup === 'default' ? '' : ` in routing group ${routingGroup}`;
    const reason = `model ${model}${group} cannot be served in role ${role}: ${errorText(thrown)}`;
    const cause = thrown instanceof Error && thrown.cause !== undefined ? errorText(thrown.cause) : null;
    const error = new PointsmanError('PM_PARTITION_NOT_READY', reason, {
      cause: thrown,
      details: { model, routing_group: routingGroup, role },
    });
    this.#log.error('a partition is not ready: its policies cannot be created', {
      model,
      routing_group: routingGroup,
      role,
      error: errorText(thrown),
      cause,
    });
    return { key, partition, role, reason, cause, error, retryAt: this.#clock.now() + SITE_RETRY_MS };
  }
}
