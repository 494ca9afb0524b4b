// Which class a request waits in: what its profile says of the name it was given and of its uncached tokens. A model's own profile takes
// the place of the router's whole one; where there is neither, one class `default` goes by the queue keys of `router`.
import type { QueueProfileSettings, QueueSettings } from '../../config/index.ts';
import type { QueueClass } from './types.ts';

/** Name of the class where there is no profile. */
const SYNTHETIC_CLASS = 'default';

/** A class in which nobody waits. */
const OPEN_CLASS: QueueClass = {
  name: SYNTHETIC_CLASS,
  family: null,
  bucket: null,
  policy: 'fcfs',
  quantum: 1,
  prefillBusyThreshold: null,
  prefillBusyThresholdFrac: null,
  busyWorkerRatio: null,
  requestLimit: null,
  rawIslLimit: null,
  cachedLimit: null,
};

/** The classes of one model. */
export class QueueProfile {
  /** In the order of the ring. */
  readonly classes: readonly QueueClass[];
  /** Whether requests can come to wait: a class has a threshold. */
  readonly queues: boolean;
  readonly #family: string | null;
  readonly #buckets: QueueProfileSettings['buckets'];
  /** Class without a family by its name. */
  readonly #explicit = new Map<string, number>();
  /** Class by bucket, by family. */
  readonly #matrix = new Map<string, Map<string, number>>();

  /** @param family default family; null = the first class takes everybody. */
  constructor(
    classes: readonly QueueClass[],
    family: string | null,
    buckets: QueueProfileSettings['buckets'],
  ) {
    this.classes = classes;
    this.queues = classes.some(hasThreshold);
    this.#family = family;
    this.#buckets = buckets;
    for (const [index, { name, family: own, bucket }] of classes.entries()) {
      if (own === null || bucket === null) {
        this.#explicit.set(name, index);
        continue;
      }
      const ofFamily = this.#matrix.get(own) ?? new Map<string, number>();
      this.#matrix.set(own, ofFamily.set(bucket, index));
    }
  }

  /** Whether a name stands for a class whatever is cached, so that nobody needs to look; also where there is one class in all. */
  isNamed(name: string | null): boolean {
    return this.#family === null || (name !== null && this.#explicit.has(name));
  }

  /** Whether a class or a family can be asked for by this name. */
  has(name: string): boolean {
    return this.#explicit.has(name) || this.#matrix.has(name);
  }

  /**
   * Number of the class.
   * @param name a class without a family, or a family; null or anything else = the default family.
   * @param uncachedTokens of the prompt; not looked at for a class without a family.
   */
  classOf(name: string | null, uncachedTokens: number): number {
    const explicit = name === null ? undefined : this.#explicit.get(name);
    if (explicit !== undefined) return explicit;
    if (this.#family === null) return 0;
    const family = (name === null ? undefined : this.#matrix.get(name)) ?? this.#matrix.get(this.#family);
    return family?.get(this.#bucketOf(uncachedTokens)) ?? 0;
  }

  /** The bucket with the highest floor that is not above. */
  #bucketOf(uncachedTokens: number): string {
    let found = '';
    for (const { minTokens, bucket } of this.#buckets) if (minTokens <= uncachedTokens) found = bucket;
    return found;
  }
}

/** Whether a class has a busy threshold: without one its requests never wait. */
export function hasThreshold({ prefillBusyThreshold, prefillBusyThresholdFrac }: QueueClass): boolean {
  return prefillBusyThreshold !== null || prefillBusyThresholdFrac !== null;
}

/** The profile of a model; null = nothing is queued and nothing classified. */
export function profileOf(settings: QueueSettings, model: string): QueueProfile | null {
  const written = settings.models.get(model) ?? settings.root;
  if (written !== null) return new QueueProfile(written.classes, written.defaultFamily, written.buckets);
  const { threshold, policy } = settings;
  if (threshold === null) return null;
  return new QueueProfile([{ ...OPEN_CLASS, policy, prefillBusyThresholdFrac: threshold }], null, []);
}

/** Of a model that has no profile any more: whoever waits may go. */
export const OPEN_PROFILE = new QueueProfile([OPEN_CLASS], null, []);
