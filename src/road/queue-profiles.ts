// Which queue profile a model has, as the configuration in force says.
import { isDeepStrictEqual } from 'node:util';
import type { QueueSettings } from '../config/index.ts';
import { profileOf, type QueueProfile } from '../scheduling/index.ts';

/** Profiles by model. */
export class QueueProfiles {
  #settings: QueueSettings | null = null;
  /** Of models with a profile of their own; all others go by `#root`. */
  readonly #own = new Map<string, QueueProfile>();
  #root: QueueProfile | null = null;

  /** Whether any model has one. */
  get any(): boolean {
    return this.#root !== null || this.#own.size > 0;
  }

  /** Takes other settings; false = they say the same. */
  set(settings: QueueSettings): boolean {
    if (isDeepStrictEqual(settings, this.#settings)) return false;
    this.#settings = settings;
    this.#own.clear();
    for (const model of settings.models.keys()) {
      const own = profileOf(settings, model);
      if (own !== null) this.#own.set(model, own);
    }
    this.#root = profileOf({ ...settings, models: new Map() }, '');
    return true;
  }

  /** Null = the model has none: its requests never wait. */
  of(model: string): QueueProfile | null {
    return this.#own.get(model) ?? this.#root;
  }
}
