// Counts who still relies on a generation of plugins: bookings, and whatever else began with it and must end with it.

/** What a booking holds of the generation that made it. */
export interface GenerationHold {
  /** Somebody begins to rely on the generation; {@link release} must follow exactly once. */
  retain(): void;
  release(): void;
}

/** The count of one generation. */
export class BookingHold implements GenerationHold {
  /** Called whenever the count falls to 0. */
  onEmpty: (() => void) | null = null;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  retain(): void {
    this.#count += 1;
  }

  release(): void {
    this.#count -= 1;
    if (this.#count === 0) this.onEmpty?.();
  }
}
