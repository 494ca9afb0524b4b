// Parses the parameters of each configured policy once, however many roles configure it alike. What is shared over roles (scope
// `shared`) is what was prepared once.
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../plugin/index.ts';
import { type CatalogEntry, type Preparation, type Prepared, prepareWithin } from './catalog.ts';

/** The preparations of one configuration. */
export class Preparations {
  readonly #clock: Clock;
  readonly #known = new Map<
    unknown,
    { readonly parameters: unknown; readonly prepared: Promise<unknown> }[]
  >();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Prepares a type with these parameters, or answers what came of it before. Never rejects. */
  of<P extends Prepared>(entry: CatalogEntry<P>, parameters: unknown): Promise<Preparation<P>> {
    const alike = this.#known.get(entry) ?? [];
    this.#known.set(entry, alike);
    const given = parameters ?? {};
    const known = alike.find((one) => isDeepStrictEqual(one.parameters, given));
    // The list belongs to the entry, so what is in it has the entry's type.
    if (known !== undefined) return known.prepared as Promise<Preparation<P>>;
    const prepared = prepareWithin(this.#clock, entry, parameters);
    alike.push({ parameters: given, prepared });
    return prepared;
  }
}
