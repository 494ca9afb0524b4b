// Writes msgpack into one buffer whose size the caller bounds beforehand. Integers take the narrowest width, as Python's
// encoders do.

const UTF8 = new TextEncoder();

/** Header and bytes of the words written so far. */
const words = new Map<string, Uint8Array>();

/** An append-only msgpack message. */
export class MsgpackWriter {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  /** @param bound upper bound of the message's bytes; writing past it throws a RangeError. */
  constructor(bound: number) {
    this.#bytes = new Uint8Array(bound);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** The message as fresh bytes. */
  take(): Uint8Array {
    return this.#bytes.slice(0, this.#at);
  }

  nil(): void {
    this.#byte(0xc0);
  }

  array(length: number): void {
    this.#header(length, 0x90, 16, 0xdc);
  }

  map(pairs: number): void {
    this.#header(pairs, 0x80, 16, 0xde);
  }

  float64(value: number): void {
    this.#byte(0xcb);
    this.#view.setFloat64(this.#at, value);
    this.#at += 8;
  }

  /** A u32. */
  unsigned(value: number): void {
    if (value < 0x80) this.#byte(value);
    else if (value < 0x100) {
      this.#byte(0xcc);
      this.#byte(value);
    } else if (value < 0x10000) {
      this.#byte(0xcd);
      this.#view.setUint16(this.#at, value);
      this.#at += 2;
    } else {
      this.#byte(0xce);
      this.#view.setUint32(this.#at, value);
      this.#at += 4;
    }
  }

  /** A u64 from its halves. */
  unsigned64(lo: number, hi: number): void {
    if (hi === 0) {
      this.unsigned(lo);
      return;
    }
    this.#byte(0xcf);
    this.#view.setUint32(this.#at, hi);
    this.#view.setUint32(this.#at + 4, lo);
    this.#at += 8;
  }

  /** The same bits as a signed 64-bit number. */
  signed64(lo: number, hi: number): void {
    if (hi < 0x80000000) {
      this.unsigned64(lo, hi);
      return;
    }
    // From -2^31 on the high half is all ones and the low half is the number itself.
    const low = hi === 0xffffffff && lo >= 0x80000000 ? lo | 0 : null;
    if (low === null) {
      this.#byte(0xd3);
      this.#view.setUint32(this.#at, hi);
      this.#view.setUint32(this.#at + 4, lo);
      this.#at += 8;
    } else if (low >= -32) this.#byte(low & 0xff);
    else if (low >= -0x80) {
      this.#byte(0xd0);
      this.#byte(low & 0xff);
    } else if (low >= -0x8000) {
      this.#byte(0xd1);
      this.#view.setInt16(this.#at, low);
      this.#at += 2;
    } else {
      this.#byte(0xd2);
      this.#view.setInt32(this.#at, low);
      this.#at += 4;
    }
  }

  unsignedArray(values: Uint32Array): void {
    this.array(values.length);
    for (let i = 0; i < values.length; i += 1) this.unsigned(values[i]!);
  }

  /** A string of a fixed vocabulary (field names, tags), shorter than 32 ASCII characters; its bytes are kept. */
  word(text: string): void {
    let bytes = words.get(text);
    if (bytes === undefined) {
      bytes = Uint8Array.of(0xa0 | text.length, ...UTF8.encode(text));
      words.set(text, bytes);
    }
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  string(text: string): void {
    const bytes = UTF8.encode(text);
    if (bytes.length < 32) this.#byte(0xa0 | bytes.length);
    else if (bytes.length < 0x100) {
      this.#byte(0xd9);
      this.#byte(bytes.length);
    } else {
      this.#byte(0xdb);
      this.#view.setUint32(this.#at, bytes.length);
      this.#at += 4;
    }
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  stringOrNull(text: string | null): void {
    if (text === null) this.nil();
    else this.string(text);
  }

  #header(length: number, fix: number, fixLimit: number, wide: number): void {
    if (length < fixLimit) this.#byte(fix | length);
    else if (length < 0x10000) {
      this.#byte(wide);
      this.#view.setUint16(this.#at, length);
      this.#at += 2;
    } else {
      this.#byte(wide + 1);
      this.#view.setUint32(this.#at, length);
      this.#at += 4;
    }
  }

  #byte(value: number): void {
    this.#view.setUint8(this.#at, value);
    this.#at += 1;
  }
}
