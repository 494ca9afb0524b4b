// Reads what an assistant said from the answer to a chat, while it is relayed: the text and the tool calls, as a client would send them
// back with its next turn. What it only thought is left out, as templates leave it out of turns that are over.
import { type SseSink, SseSplitter, sseData } from '../engines/index.ts';
import { isObject, type JsonObject } from './request-fields.ts';

/** Longest answer that is kept, in bytes of what it said, or of its body where it is no stream. */
export const MAX_ANSWER_BYTES = 2 ** 20;

/** Reasons to finish of an answer that is not whole. */
const GIVEN_UP: ReadonlySet<string> = new Set(['abort', 'error']);

interface ToolCall {
  id: string | null;
  name: string;
  arguments: string;
}

/** An answer under way. */
export class AssistantAnswer implements SseSink {
  readonly #splitter: SseSplitter | null;
  readonly #parts: Uint8Array[] = [];
  #content = '';
  readonly #calls = new Map<number, ToolCall>();
  #bytes = 0;
  #broken = false;
  /** A stream said why it ends: without that it may have been cut anywhere. */
  #ended = false;

  constructor(isStream: boolean) {
    this.#splitter = isStream ? new SseSplitter(this) : null;
  }

  /** Bytes that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  push(bytes: Uint8Array): void {
    if (this.#broken) return;
    if (this.#splitter !== null) this.#splitter.push(bytes);
    else {
      this.#keep(bytes.length);
      // The relay may use the bytes again.
      if (!this.#broken) this.#parts.push(bytes.slice());
    }
  }

  event(bytes: Uint8Array, whole: boolean): void {
    if (!whole) {
      // Too long to be held: nobody knows what it said.
      this.#broken = true;
      return;
    }
    const data = sseData(bytes)?.trim() ?? '';
    if (data !== '' && data !== '[DONE]') this.#read(data, 'delta');
  }

  /** The message; null when the answer is not known whole, or said nothing. */
  message(): JsonObject | null {
    if (this.#splitter === null && !this.#broken)
      this.#read(Buffer.concat(this.#parts).toString('utf8'), 'message');
    if (this.#broken || !(this.#ended || this.#splitter === null)) return null;
    if (this.#content === '' && this.#calls.size === 0) return null;
    const calls = [...this.#calls].sort(([a], [b]) => a - b);
    return {
      role: 'assistant',
      content: this.#content,
      ...(calls.length === 0 ? {} : { tool_calls: calls.map(([, call]) => callOf(call)) }),
    };
  }

  #read(text: string, member: 'delta' | 'message'): void {
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      this.#broken = true;
      return;
    }
    if (!isObject(parsed)) return;
    const choices = Array.isArray(parsed.choices) ? parsed.choices : [];
    const choice: unknown = choices[0];
    const reason = isObject(choice) ? (choice.finish_reason ?? null) : null;
    // Engines tell of what goes wrong after the head in the answer itself.
    if ((parsed.error ?? null) !== null || (typeof reason === 'string' && GIVEN_UP.has(reason))) {
      this.#broken = true;
      return;
    }
    const said = isObject(choice) ? choice[member] : null;
    if (isObject(said)) this.#add(said);
    this.#ended ||= reason !== null;
  }

  #add(said: JsonObject): void {
    if (typeof said.content === 'string') {
      this.#keep(said.content.length);
      this.#content += said.content;
    }
    const calls: readonly unknown[] = Array.isArray(said.tool_calls) ? said.tool_calls : [];
    calls.forEach((call, at) => {
      this.#addCall(call, at);
    });
  }

  #addCall(value: unknown, at: number): void {
    if (!isObject(value) || !isObject(value.function)) return;
    const index = typeof value.index === 'number' ? value.index : at;
    const call = this.#calls.get(index) ?? { id: null, name: '', arguments: '' };
    this.#calls.set(index, call);
    if (typeof value.id === 'string') call.id ??= value.id;
    const { name, arguments: more } = value.function;
    if (typeof name === 'string') call.name += name;
    if (typeof more === 'string') call.arguments += more;
    this.#keep(64 + [value.id, name, more].reduce((sum: number, text) => sum + lengthOf(text), 0));
  }

  #keep(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= MAX_ANSWER_BYTES) return;
    this.#broken = true;
    this.#content = '';
    this.#calls.clear();
    this.#parts.length = 0;
    this.#bytes = 0;
  }
}

function lengthOf(text: unknown): number {
  return typeof text === 'string' ? text.length : 0;
}

function callOf({ id, name, arguments: args }: ToolCall): JsonObject {
  return { ...(id === null ? {} : { id }), type: 'function', function: { name, arguments: args } };
}
