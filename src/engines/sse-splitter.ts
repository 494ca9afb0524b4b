// Cuts a stream of server-sent events into whole events, byte for byte and on any split of the input, so that the relay can
// pass bytes on unchanged and still read, count or withhold single events.
// Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

const LF = 0x0a;
const CR = 0x0d;

/** An event longer than this, in bytes, is passed on as it comes and never read. */
export const MAX_SSE_EVENT_BYTES = 1024 * 1024;

/** Receives what {@link SseSplitter} found. */
export interface SseSink {
  /**
   * One whole event with its closing blank line; or, with `whole` false, a piece of an event that is too long to hold, or of
   * one that the end of the stream cut short. The bytes may be a view into the chunk that was pushed.
   */
  event(bytes: Uint8Array, whole: boolean): void;
}

/**
 * Splits a byte stream at blank lines (LF, CR LF or CR line ends, also mixed). The concatenation of everything handed out
 * equals the input. Holds at most {@link MAX_SSE_EVENT_BYTES} and the last chunk.
 */
export class SseSplitter {
  readonly #sink: SseSink;
  readonly #maxBytes: number;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  /** True while the rest of a too long event passes through. */
  #passing = false;
  /** True when nothing but line ends was read since the last line end, so that one more line end closes the event. */
  #lineIsEmpty = false;
  #afterCr = false;
  /** An event was closed by a CR: a LF that follows at once belongs to it. */
  #closedByCr = false;

  constructor(sink: SseSink, maxBytes: number = MAX_SSE_EVENT_BYTES) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  /** True inside an event whose beginning was already handed out. */
  get midEvent(): boolean {
    return this.#passing;
  }

  push(chunk: Uint8Array): void {
    let from = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at]!;
      if (byte === LF && this.#afterCr) {
        // Second half of a CR LF; the line end was counted at the CR.
        this.#afterCr = false;
        if (this.#closedByCr) from = this.#close(chunk, from, at + 1);
        continue;
      }
      if (this.#closedByCr) from = this.#close(chunk, from, at);
      this.#afterCr = byte === CR;
      if (byte !== LF && byte !== CR) {
        this.#lineIsEmpty = false;
      } else if (!this.#lineIsEmpty) {
        this.#lineIsEmpty = true;
      } else if (byte === CR) {
        // Whether a LF belongs to this line end shows only in the next byte.
        this.#closedByCr = true;
      } else {
        from = this.#close(chunk, from, at + 1);
      }
    }
    if (from < chunk.length) this.#hold(chunk.subarray(from));
  }

  /** The stream ended: hands out what is left. */
  end(): void {
    if (this.#closedByCr) this.#close(new Uint8Array(0), 0, 0);
    else if (this.#heldBytes > 0) this.#sink.event(this.#take(new Uint8Array(0)), false);
  }

  /** Closes the event that ends before `to`; returns where the next one starts. */
  #close(chunk: Uint8Array, from: number, to: number): number {
    this.#closedByCr = false;
    // After a closed event the next line starts empty, so further blank lines are events of their own: harmless and exact.
    this.#lineIsEmpty = true;
    const bytes = this.#take(chunk.subarray(from, to));
    const whole = !this.#passing;
    this.#passing = false;
    if (bytes.length > 0) this.#sink.event(bytes, whole);
    return to;
  }

  #hold(rest: Uint8Array): void {
    if (this.#passing || this.#heldBytes + rest.length > this.#maxBytes) {
      this.#passing = true;
      this.#sink.event(this.#take(rest), false);
      return;
    }
    this.#held.push(rest);
    this.#heldBytes += rest.length;
  }

  /** Everything held, with `last` behind it. */
  #take(last: Uint8Array): Uint8Array {
    if (this.#held.length === 0) return last;
    const all = new Uint8Array(this.#heldBytes + last.length);
    let offset = 0;
    for (const part of this.#held) {
      all.set(part, offset);
      offset += part.length;
    }
    all.set(last, offset);
    this.#held = [];
    this.#heldBytes = 0;
    return all;
  }
}

const DATA = Buffer.from('data:');

/**
 * The joined `data:` lines of one event as text, or null when it has none (comments, `event:` alone).
 * @param event bytes of one whole event.
 */
export function sseData(event: Uint8Array): string | null {
  const bytes = Buffer.from(event.buffer, event.byteOffset, event.length);
  if (!bytes.includes(DATA)) return null;
  const lines: string[] = [];
  for (const line of bytes.toString('utf8').split(/\r\n|\n|\r/)) {
    if (line.startsWith('data:')) lines.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
  return lines.length === 0 ? null : lines.join('\n');
}
