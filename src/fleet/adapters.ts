// LoRA adapters: which workers hold one, and which model it belongs to.
import type { Fleet } from './fleet.ts';
import type { Worker } from './types.ts';

/** Whether a worker holds an adapter, by its record or by what its engine advertises or lists. */
export function holdsAdapter(
  { capabilities, engine = null, spec }: Pick<Worker, 'spec' | 'capabilities' | 'engine'>,
  adapter: string,
): boolean {
  return (
    spec.adapters?.includes(adapter) === true ||
    capabilities?.adapters?.includes(adapter) === true ||
    engine?.description.adapters?.includes(adapter) === true
  );
}

/** The adapters of a fleet by name; read again when the fleet has changed. */
export class AdapterModels {
  readonly #fleet: Pick<Fleet, 'version' | 'workers'>;
  #version = -1;
  #models: ReadonlyMap<string, readonly string[]> = new Map();

  constructor(fleet: Pick<Fleet, 'version' | 'workers'>) {
    this.#fleet = fleet;
  }

  /** Models of whose workers any holds an adapter, in order of name; empty = nobody has it. A worker that is gone counts: it may return. */
  modelsOf(adapter: string): readonly string[] {
    return this.all().get(adapter) ?? [];
  }

  /** Models by adapter. */
  all(): ReadonlyMap<string, readonly string[]> {
    const { version } = this.#fleet;
    if (version !== this.#version) {
      this.#models = read(this.#fleet.workers());
      this.#version = version;
    }
    return this.#models;
  }
}

function read(workers: readonly Worker[]): ReadonlyMap<string, readonly string[]> {
  const models = new Map<string, Set<string>>();
  for (const { capabilities, engine = null, spec } of workers) {
    const listed = engine?.description.adapters ?? [];
    for (const adapter of [...(spec.adapters ?? []), ...(capabilities?.adapters ?? []), ...listed]) {
      const known = models.get(adapter);
      if (known === undefined) models.set(adapter, new Set([spec.model]));
      else known.add(spec.model);
    }
  }
  return new Map([...models].map(([adapter, names]) => [adapter, [...names].sort()]));
}
