// The affinity step: before a request is placed it takes part in the binding of its session. Whoever comes while the binding is being made
// waits, and walks on when it is made. Where sessions are not bound nothing is asked and nothing made.
import type { PointsmanError } from '../plugin/index.ts';
import type {
  Placement,
  PlacementRequest,
  Scheduler,
  SessionAffinity,
  SessionBinding,
} from '../scheduling/index.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import type { KnownHashes } from './queue-walk.ts';
import { asPointsmanError } from './road-errors.ts';
import type { Walk } from './staged-booking.ts';
import type { RoadRequest } from './types.ts';

/** What the step works with. */
export interface AffinityStepPorts {
  readonly affinity?: SessionAffinity | null;
  readonly scheduler: Pick<Scheduler, 'choose'>;
  readonly clock: { now(): number };
}

/** Binds sessions on behalf of the walker. */
export class AffinityStep {
  readonly #affinity: SessionAffinity | null;
  readonly #ports: AffinityStepPorts;
  readonly #goOn: (walk: Walk) => void;

  /** @param goOn a walk that waited for its binding goes on. */
  constructor(ports: AffinityStepPorts, goOn: (walk: Walk) => void) {
    this.#affinity = ports.affinity ?? null;
    this.#ports = ports;
    this.#goOn = goOn;
  }

  /** Whether sessions are bound at all. */
  get active(): boolean {
    return this.#affinity?.active === true;
  }

  /**
   * Takes part in the binding of a request that is placed next. Ask where `active` alone.
   * @param lookup its prompt's; while it waits the hashes are kept, as many may wait and be woken often.
   * @returns the walk with its binding, if any; null = it waits, and goes on later.
   * @throws PointsmanError PM_AFFINITY_CONFLICT, PM_AFFINITY_FULL, PM_AFFINITY_ID
   */
  take(walk: Walk, lookup: PromptLookup): Walk | null {
    const { clock } = this.#ports;
    const { exchange, bindingSince = null } = walk;
    const now = clock.now();
    const taken = this.#affinity?.take(
      walk.request,
      bindingSince === null ? null : now - bindingSince,
      () => {
        exchange.waitedFor();
        try {
          this.#goOn({ ...walk, known: hashesOf(walk, lookup), bindingSince: bindingSince ?? now });
        } catch (thrown) {
          // Nobody is above to whom it could go.
          exchange.failed(asPointsmanError(thrown));
        }
      },
    );
    if (taken === undefined || taken.kind === 'free') return walk;
    if (taken.kind === 'bound') return { ...walk, binding: taken.binding };
    exchange.waitsFor(taken.cancel);
    return null;
  }

  /** The request as its queue sees it: bound hard, it waits for its session's worker alone. */
  queued(request: RoadRequest): RoadRequest {
    const target = this.active ? (this.#affinity?.exactTarget(request) ?? null) : null;
    return target === null
      ? request
      : { ...request, constraints: { ...request.constraints, pinnedWorker: target } };
  }

  /** Chooses without booking: as a request of the session would be placed now. @throws as of {@link Scheduler.choose} */
  choose(request: RoadRequest, placing: PlacementRequest): Placement {
    const { scheduler } = this.#ports;
    const binding = this.active ? (this.#affinity?.look(request) ?? null) : null;
    if (binding === null) return scheduler.choose(placing);
    try {
      return scheduler.choose(binding.placing(placing));
    } catch (thrown) {
      throw unplaced(binding, request, thrown);
    }
  }
}

/** What need not be hashed again; callers that carry their requests give the hashes with them. */
function hashesOf({ request }: Walk, { bigrams, blockSize, hashes }: PromptLookup): KnownHashes | null {
  return hashes === null || (request.caller ?? null) !== null ? null : { hashes, blockSize, bigrams };
}

/** Why a request could not be placed, its part in the binding ended. */
export function unplaced(
  binding: SessionBinding | null | undefined,
  { constraints }: RoadRequest,
  thrown: unknown,
): PointsmanError {
  const error = asPointsmanError(thrown);
  return binding?.unplaced(error, constraints.pinnedWorker !== null) ?? error;
}
