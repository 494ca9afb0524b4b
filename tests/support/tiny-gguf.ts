// A language model small enough to be written by a test: llama architecture, random weights, a vocabulary that spells any text. The
// same bytes on every machine. File layout: GGUF version 3 of ggml (little endian, tensors aligned to 32 bytes).
import { writeFileSync } from 'node:fs';

const LAYERS = 2;
const DIMENSIONS = 64;
const HEADS = 4;
const KV_HEADS = 2;
const FEED_FORWARD = 128;
/** Tokens that one conversation can have at most. */
const CONTEXT_LENGTH = 8192;
const ALIGNMENT = 32;

/** Kinds of values in a GGUF header. */
const KIND = { u32: 4, i32: 5, f32: 6, bool: 7, text: 8, array: 9 } as const;
/** What a token is: of these a tokenizer finds a control token only where special tokens are parsed. */
const TOKEN = { normal: 1, unknown: 2, control: 3, byte: 6 } as const;

/** ChatML, which llama.cpp and the template engine here both know. */
const CHAT_TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const WORDS =
  '▁the ▁on ▁a ▁to ▁and ▁in ▁of ▁is ▁points ▁man ▁train ▁track ▁town ▁goods ▁click ▁looks ▁pulls ▁what user system assistant';

interface Piece {
  readonly text: string;
  readonly score: number;
  readonly kind: number;
}

/** Bytes of the model file, about half a megabyte. */
export function tinyGguf(): Uint8Array {
  const pieces = vocabulary();
  const writer = new GgufWriter();
  const kv = DIMENSIONS / HEADS;
  writer.value('general.architecture', 'text', 'llama');
  writer.value('general.name', 'text', 'tiny');
  writer.value('llama.context_length', 'u32', CONTEXT_LENGTH);
  writer.value('llama.embedding_length', 'u32', DIMENSIONS);
  writer.value('llama.block_count', 'u32', LAYERS);
  writer.value('llama.feed_forward_length', 'u32', FEED_FORWARD);
  writer.value('llama.attention.head_count', 'u32', HEADS);
  writer.value('llama.attention.head_count_kv', 'u32', KV_HEADS);
  writer.value('llama.attention.layer_norm_rms_epsilon', 'f32', 1e-5);
  writer.value('llama.rope.dimension_count', 'u32', kv);
  writer.value('llama.vocab_size', 'u32', pieces.length);
  writer.value('tokenizer.ggml.model', 'text', 'llama');
  writer.list(
    'tokenizer.ggml.tokens',
    'text',
    pieces.map(({ text }) => text),
  );
  writer.list(
    'tokenizer.ggml.scores',
    'f32',
    pieces.map(({ score }) => score),
  );
  writer.list(
    'tokenizer.ggml.token_type',
    'i32',
    pieces.map(({ kind }) => kind),
  );
  writer.value('tokenizer.ggml.unknown_token_id', 'u32', 0);
  writer.value('tokenizer.ggml.bos_token_id', 'u32', 1);
  writer.value('tokenizer.ggml.eos_token_id', 'u32', 2);
  writer.value('tokenizer.ggml.add_bos_token', 'bool', 1);
  writer.value('tokenizer.ggml.add_eos_token', 'bool', 0);
  writer.value('tokenizer.chat_template', 'text', CHAT_TEMPLATE);

  writer.tensor('token_embd.weight', [DIMENSIONS, pieces.length], 1);
  for (let layer = 0; layer < LAYERS; layer += 1) {
    const name = (part: string): string => `blk.${layer}.${part}.weight`;
    writer.tensor(name('attn_norm'), [DIMENSIONS], null);
    writer.tensor(name('attn_q'), [DIMENSIONS, DIMENSIONS], 0.25);
    writer.tensor(name('attn_k'), [DIMENSIONS, kv * KV_HEADS], 0.25);
    writer.tensor(name('attn_v'), [DIMENSIONS, kv * KV_HEADS], 0.25);
    writer.tensor(name('attn_output'), [DIMENSIONS, DIMENSIONS], 0.25);
    writer.tensor(name('ffn_norm'), [DIMENSIONS], null);
    writer.tensor(name('ffn_gate'), [DIMENSIONS, FEED_FORWARD], 0.25);
    writer.tensor(name('ffn_up'), [DIMENSIONS, FEED_FORWARD], 0.25);
    writer.tensor(name('ffn_down'), [FEED_FORWARD, DIMENSIONS], 0.25);
  }
  writer.tensor('output_norm.weight', [DIMENSIONS], null);
  writer.tensor('output.weight', [DIMENSIONS, pieces.length], 0.25);
  return writer.bytes();
}

/** Writes the model to a file. */
export function writeTinyGguf(path: string): void {
  writeFileSync(path, tinyGguf());
}

/** Every byte is a token, so that any text has ids; letters and some words are longer ones. */
function vocabulary(): Piece[] {
  const pieces: Piece[] = [
    { text: '<unk>', score: 0, kind: TOKEN.unknown },
    { text: '<s>', score: 0, kind: TOKEN.control },
    { text: '</s>', score: 0, kind: TOKEN.control },
  ];
  for (let byte = 0; byte < 256; byte += 1) {
    const hex = byte.toString(16).toUpperCase().padStart(2, '0');
    pieces.push({ text: `<0x${hex}>`, score: 0, kind: TOKEN.byte });
  }
  pieces.push({ text: '<|im_start|>', score: 0, kind: TOKEN.control });
  pieces.push({ text: '<|im_end|>', score: 0, kind: TOKEN.control });
  // The longer a piece the better: merging goes from letters over pairs to words.
  const merged = new Set<string>(['▁', ...'abcdefghijklmnopqrstuvwxyz']);
  for (const word of WORDS.split(' ')) {
    for (let end = 2; end <= word.length; end += 1) merged.add(word.slice(0, end));
  }
  for (const text of merged) pieces.push({ text, score: text.length - 100, kind: TOKEN.normal });
  return pieces;
}

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** Gathers header and tensors, then lays them out. */
class GgufWriter {
  readonly #header: Uint8Array[] = [];
  readonly #tensors: Tensor[] = [];
  #values = 0;
  /** A linear congruential generator of 32 bits, the one of Numerical Recipes. */
  #state = 20_231_117;

  value(key: string, kind: keyof typeof KIND, value: string | number): void {
    this.#values += 1;
    this.#header.push(text(key), u32(KIND[kind]), encoded(kind, value));
  }

  list(key: string, kind: keyof typeof KIND, values: readonly (string | number)[]): void {
    this.#values += 1;
    this.#header.push(text(key), u32(KIND.array), u32(KIND[kind]), u64(values.length));
    for (const value of values) this.#header.push(encoded(kind, value));
  }

  /** @param spread values lie evenly in ±spread; null = all are 1. */
  tensor(name: string, shape: readonly number[], spread: number | null): void {
    const values = new Float32Array(shape.reduce((product, size) => product * size, 1)).fill(1);
    if (spread !== null) for (let at = 0; at < values.length; at += 1) values[at] = spread * this.#uniform();
    this.#tensors.push({ name, shape, values });
  }

  bytes(): Uint8Array {
    const parts = [
      Buffer.from('GGUF'),
      u32(3),
      u64(this.#tensors.length),
      u64(this.#values),
      ...this.#header,
    ];
    let offset = 0;
    for (const { name, shape, values } of this.#tensors) {
      parts.push(text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset));
      offset += aligned(values.byteLength);
    }
    const header = Buffer.concat(parts);
    const data = Buffer.alloc(offset);
    let at = 0;
    for (const { values } of this.#tensors) {
      for (const [index, value] of values.entries()) data.writeFloatLE(value, at + 4 * index);
      at += aligned(values.byteLength);
    }
    return Buffer.concat([header, Buffer.alloc(aligned(header.length) - header.length), data]);
  }

  /** Evenly in [−1, 1). */
  #uniform(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 31 - 1;
  }
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function encoded(kind: keyof typeof KIND, value: string | number): Uint8Array {
  if (typeof value === 'string') return text(value);
  if (kind === 'bool') return Uint8Array.of(value);
  const bytes = Buffer.alloc(4);
  if (kind === 'f32') bytes.writeFloatLE(value);
  else bytes.writeInt32LE(value | 0);
  return bytes;
}

function text(value: string): Uint8Array {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([u64(bytes.length), bytes]);
}

function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
