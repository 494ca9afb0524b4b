// Reads msgpack (github.com/msgpack/msgpack, spec.md) straight from a message's bytes: no intermediate objects, no bigint.
// Every read checks the end of the bytes and throws PM_EVENT_DECODE with the offset.
import { PointsmanError } from '../plugin/index.ts';

/** Values may be nested this deep where their content is skipped. */
export const MAX_NESTING = 8;

/** Longest string that is kept, in bytes; names and ids are far shorter. */
export const MAX_STRING_BYTES = 4096;

const TWO_32 = 4294967296;
const UTF8 = new TextDecoder('utf-8');

/** A cursor over one msgpack message. */
export class MsgpackReader {
  readonly bytes: Uint8Array;
  /** Offset of the next byte. */
  at = 0;
  /** Low and high 32 bits of the last integer read by `integer64` or `hash`. */
  lo = 0;
  hi = 0;
  #negative = false;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Throws PM_EVENT_DECODE: `problem` ends the sentence "KV event batch, byte N: ". */
  fail(problem: string, at: number = this.at): never {
    throw new PointsmanError('PM_EVENT_DECODE', `KV event batch, byte ${at}: ${problem}`, {
      details: { offset: at, length: this.bytes.length },
    });
  }

  /** The next byte, not consumed. */
  peek(): number {
    const byte = this.bytes[this.at];
    return byte === undefined ? this.fail('the bytes end where a value must follow') : byte;
  }

  isArray(): boolean {
    const byte = this.peek();
    return (byte >= 0x90 && byte <= 0x9f) || byte === 0xdc || byte === 0xdd;
  }

  isMap(): boolean {
    const byte = this.peek();
    return (byte >= 0x80 && byte <= 0x8f) || byte === 0xde || byte === 0xdf;
  }

  isString(): boolean {
    const byte = this.peek();
    return (byte >= 0xa0 && byte <= 0xbf) || (byte >= 0xd9 && byte <= 0xdb);
  }

  isInteger(): boolean {
    const byte = this.peek();
    return byte <= 0x7f || byte >= 0xe0 || (byte >= 0xcc && byte <= 0xd3);
  }

  /** Consumes nil if it is next. */
  takeNil(): boolean {
    if (this.peek() !== 0xc0) return false;
    this.at += 1;
    return true;
  }

  /** Length of an array; every element takes at least a byte, so it never exceeds the bytes left. */
  arrayLength(what: string): number {
    const at = this.at;
    const byte = this.peek();
    let length: number;
    if (byte >= 0x90 && byte <= 0x9f) {
      this.at += 1;
      length = byte & 0x0f;
    } else if (byte === 0xdc) length = this.#sized(2);
    else if (byte === 0xdd) length = this.#sized(4);
    else return this.fail(`${what} must be an array`);
    if (length > this.bytes.length - this.at)
      this.fail(`${what} claims ${length} elements, more than bytes are left`, at);
    return length;
  }

  /** Number of key-value pairs of a map. */
  mapLength(what: string): number {
    const at = this.at;
    const byte = this.peek();
    let length: number;
    if (byte >= 0x80 && byte <= 0x8f) {
      this.at += 1;
      length = byte & 0x0f;
    } else if (byte === 0xde) length = this.#sized(2);
    else if (byte === 0xdf) length = this.#sized(4);
    else return this.fail(`${what} must be a map`);
    if (length * 2 > this.bytes.length - this.at)
      this.fail(`${what} claims ${length} pairs, more than bytes are left`, at);
    return length;
  }

  /** Consumes a string's header and returns its length in bytes, which follow at `at` and are all present. */
  stringLength(what: string): number {
    const byte = this.peek();
    let length: number;
    if (byte >= 0xa0 && byte <= 0xbf) {
      this.at += 1;
      length = byte & 0x1f;
    } else if (byte === 0xd9) length = this.#sized(1);
    else if (byte === 0xda) length = this.#sized(2);
    else if (byte === 0xdb) length = this.#sized(4);
    else return this.fail(`${what} must be a string`);
    this.#need(length);
    return length;
  }

  /** A string of at most {@link MAX_STRING_BYTES}; invalid UTF-8 becomes U+FFFD. */
  string(what: string): string {
    const start = this.at;
    const length = this.stringLength(what);
    if (length > MAX_STRING_BYTES) this.fail(`${what} is longer than ${MAX_STRING_BYTES} bytes`, start);
    const from = this.at;
    this.at = from + length;
    return UTF8.decode(this.bytes.subarray(from, this.at));
  }

  /** A string or nil. */
  stringOrNull(what: string): string | null {
    return this.takeNil() ? null : this.string(what);
  }

  /** An integer within [0, max]. */
  unsigned(what: string, max: number): number {
    const start = this.at;
    this.integer64(what);
    const value = this.hi * TWO_32 + this.lo;
    if (this.#negative || value > max) this.fail(`${what} must be an integer from 0 to ${max}`, start);
    return value;
  }

  /** A float of either width, or an integer, as a number. */
  number(what: string): number {
    const byte = this.peek();
    if (byte === 0xcb || byte === 0xca) {
      const width = byte === 0xcb ? 8 : 4;
      this.at += 1;
      this.#need(width);
      const value = width === 8 ? this.#view.getFloat64(this.at) : this.#view.getFloat32(this.at);
      this.at += width;
      return value;
    }
    if (!this.isInteger()) this.fail(`${what} must be a number`);
    this.integer64(what);
    return (this.#negative ? this.hi | 0 : this.hi) * TWO_32 + this.lo;
  }

  /** Any integer as 64 bits of two's complement, in `lo` and `hi`. */
  integer64(what: string): void {
    const byte = this.peek();
    if (byte <= 0x7f || byte >= 0xe0) {
      this.at += 1;
      this.#small(byte <= 0x7f ? byte : byte - 256);
      return;
    }
    if (byte < 0xcc || byte > 0xd3) this.fail(`${what} must be an integer`);
    const signed = byte >= 0xd0;
    const width = 1 << (byte & 3);
    this.at += 1;
    this.#need(width);
    if (width === 8) {
      this.hi = this.#view.getUint32(this.at);
      this.lo = this.#view.getUint32(this.at + 4);
      this.#negative = signed && this.hi >= 0x80000000;
    } else if (signed) {
      this.#small(
        width === 1
          ? this.#view.getInt8(this.at)
          : width === 2
            ? this.#view.getInt16(this.at)
            : this.#view.getInt32(this.at),
      );
    } else {
      this.hi = 0;
      this.#negative = false;
      this.lo =
        width === 1
          ? this.#view.getUint8(this.at)
          : width === 2
            ? this.#view.getUint16(this.at)
            : this.#view.getUint32(this.at);
    }
    this.at += width;
  }

  /** A block hash into `lo` and `hi`: any integer, or a digest of 8 to 64 bytes, of which the last 8 count (big-endian). */
  hash(what: string): void {
    const byte = this.peek();
    if (byte !== 0xc4) {
      this.integer64(what);
      return;
    }
    const start = this.at;
    const length = this.#sized(1);
    if (length < 8 || length > 64)
      this.fail(`${what} must be an integer or a digest of 8 to 64 bytes`, start);
    this.#need(length);
    this.at += length;
    this.hi = this.#view.getUint32(this.at - 8);
    this.lo = this.#view.getUint32(this.at - 4);
  }

  /** Fills `out` with integers from 0 to 2³² − 1. The widths token ids come in are read without a call per value. */
  unsigned32s(out: Uint32Array, what: string): void {
    const { bytes } = this;
    const end = bytes.length;
    let { at } = this;
    for (let i = 0; i < out.length; i += 1) {
      const byte = at < end ? bytes[at]! : 0xc1;
      if (byte <= 0x7f) {
        out[i] = byte;
        at += 1;
      } else if (byte === 0xcd && at + 3 <= end) {
        out[i] = (bytes[at + 1]! << 8) | bytes[at + 2]!;
        at += 3;
      } else if (byte === 0xce && at + 5 <= end) {
        out[i] = (bytes[at + 1]! << 24) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 8) | bytes[at + 4]!;
        at += 5;
      } else {
        this.at = at;
        out[i] = this.unsigned(what, 0xffffffff);
        at = this.at;
      }
    }
    this.at = at;
  }

  /** Fills `pairs` with hashes as (lo, hi); see `hash`. */
  hashes(pairs: Uint32Array, what: string): void {
    for (let i = 0; i < pairs.length; i += 2) {
      if (this.bytes[this.at] === 0xcf && this.at + 9 <= this.bytes.length) {
        pairs[i] = this.#view.getUint32(this.at + 5);
        pairs[i + 1] = this.#view.getUint32(this.at + 1);
        this.at += 9;
      } else {
        this.hash(what);
        pairs[i] = this.lo;
        pairs[i + 1] = this.hi;
      }
    }
  }

  /** Skips one value of any type; `nesting` more levels may open inside it. */
  skip(nesting: number = MAX_NESTING): void {
    const byte = this.peek();
    if (this.isArray() || this.isMap()) {
      if (nesting === 0) this.fail(`values are nested deeper than ${MAX_NESTING} levels`);
      let values = this.isArray()
        ? this.arrayLength('a skipped value')
        : this.mapLength('a skipped value') * 2;
      for (; values > 0; values -= 1) this.skip(nesting - 1);
      return;
    }
    if (this.isString()) {
      const length = this.stringLength('a skipped value');
      this.at += length;
      return;
    }
    if (byte <= 0x7f || byte >= 0xe0) this.at += 1;
    else if (byte === 0xc1) this.fail('0xc1 is no msgpack type');
    else this.#skipBytes(byte);
  }

  #skipBytes(byte: number): void {
    let length: number;
    if (byte === 0xc0 || byte === 0xc2 || byte === 0xc3) {
      length = 0;
      this.at += 1;
    } else if (byte >= 0xc4 && byte <= 0xc6) length = this.#sized(1 << (byte - 0xc4));
    else if (byte >= 0xc7 && byte <= 0xc9) length = this.#sized(1 << (byte - 0xc7)) + 1;
    else {
      this.at += 1;
      if (byte >= 0xd4) length = (1 << (byte - 0xd4)) + 1;
      else if (byte >= 0xcc) length = 1 << (byte & 3);
      else length = byte === 0xca ? 4 : 8;
    }
    this.#need(length);
    this.at += length;
  }

  /** Consumes a type byte and an unsigned big-endian length of `width` bytes behind it. */
  #sized(width: number): number {
    this.at += 1;
    this.#need(width);
    const value =
      width === 1
        ? this.#view.getUint8(this.at)
        : width === 2
          ? this.#view.getUint16(this.at)
          : this.#view.getUint32(this.at);
    this.at += width;
    return value;
  }

  #small(value: number): void {
    this.#negative = value < 0;
    this.lo = value >>> 0;
    this.hi = value < 0 ? 0xffffffff : 0;
  }

  #need(length: number): void {
    if (length > this.bytes.length - this.at)
      this.fail(`${length} more bytes must follow, the batch is cut short`);
  }
}
