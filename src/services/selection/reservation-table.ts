// Who holds which reservation id. An id is claimed before anything is awaited for it, so that two requests for one id never both book.
import { PointsmanError } from '../../plugin/index.ts';

/** A claimed id, to be installed or given back. */
export interface Claim<T> {
  /** The booking is made: lifecycle calls find it from now on. False when the claim is over. */
  install(value: T): boolean;
  /** Gives the id back, unless it was installed. Idempotent. */
  release(): void;
}

type Row<T> = { readonly value: T } | { readonly value?: never };

/** Rows by reservation id. */
export class ReservationTable<T> {
  readonly #rows = new Map<string, Row<T>>();
  #installed = 0;

  /** Reservations that are booked. */
  get size(): number {
    return this.#installed;
  }

  /** Rows, claims included; 0 when idle. */
  get rows(): number {
    return this.#rows.size;
  }

  /** @throws PM_SELECTOR_CONFLICT when an id is reserved or being reserved. */
  check(id: string): void {
    if (!this.#rows.has(id)) return;
    throw new PointsmanError(
      'PM_SELECTOR_CONFLICT',
      `selection ${id} is reserved already, or is being reserved; reservation ids must be unique`,
    );
  }

  /** Claims an id. @throws PM_SELECTOR_CONFLICT as of {@link check} */
  claim(id: string): Claim<T> {
    this.check(id);
    let row: Row<T> = {};
    this.#rows.set(id, row);
    return {
      install: (value) => {
        if (this.#rows.get(id) !== row || 'value' in row) return false;
        row = { value };
        this.#rows.set(id, row);
        this.#installed += 1;
        return true;
      },
      release: () => {
        if (this.#rows.get(id) === row && !('value' in row)) this.#rows.delete(id);
      },
    };
  }

  /** The reservation of an id; null = there is none, or it is only claimed. */
  get(id: string): T | null {
    const row = this.#rows.get(id);
    return row !== undefined && 'value' in row ? (row.value ?? null) : null;
  }

  /** Removes a reservation that is over; another of the same id stays. */
  remove(id: string, value: T): void {
    const row = this.#rows.get(id);
    if (row === undefined || !('value' in row) || row.value !== value) return;
    this.#rows.delete(id);
    this.#installed -= 1;
  }

  /** All reservations. */
  *values(): Generator<T> {
    for (const row of this.#rows.values()) if ('value' in row && row.value !== undefined) yield row.value;
  }
}
