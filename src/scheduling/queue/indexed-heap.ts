// A binary heap whose items know their place, so that any of them is taken out in O(log n).

/** What a heap keeps of an item; −1 = it is in none. */
export interface HeapItem {
  place: number;
}

/** The first item in an order is at the head. An item is in one heap at most. */
export class IndexedHeap<T extends HeapItem> {
  readonly #items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  /** @param compare negative when `a` goes before `b`. */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#items.length;
  }

  /** The first; null = there is none. */
  get head(): T | null {
    return this.#items[0] ?? null;
  }

  /** All items, in no particular order. */
  items(): readonly T[] {
    return this.#items;
  }

  push(item: T): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  /** Takes an item out that is in this heap. */
  remove(item: T): void {
    const { place } = item;
    item.place = -1;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#settle(last, place);
  }

  /** An item of this heap has another order now. */
  moved(item: T): void {
    this.#settle(item, item.place);
  }

  #settle(item: T, place: number): void {
    const parent = this.#items[(place - 1) >> 1];
    if (place > 0 && parent !== undefined && this.#compare(item, parent) < 0) this.#rise(item, place);
    else this.#sink(item, place);
  }

  #rise(item: T, from: number): void {
    let place = from;
    while (place > 0) {
      const up = (place - 1) >> 1;
      const parent = this.#items[up]!;
      if (this.#compare(item, parent) >= 0) break;
      this.#put(parent, place);
      place = up;
    }
    this.#put(item, place);
  }

  #sink(item: T, from: number): void {
    const items = this.#items;
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= items.length) break;
      if (below + 1 < items.length && this.#compare(items[below + 1]!, items[below]!) < 0) below += 1;
      const child = items[below]!;
      if (this.#compare(item, child) <= 0) break;
      this.#put(child, place);
      place = below;
    }
    this.#put(item, place);
  }

  #put(item: T, place: number): void {
    this.#items[place] = item;
    item.place = place;
  }
}
