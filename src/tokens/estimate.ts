// The length of a prompt nobody tokenized: about four bytes of UTF-8 per token, the common rule of thumb for BPE vocabularies.

const BYTES_PER_TOKEN = 4;

/** Estimated tokens of a text, at least 1. */
export function estimateTokens(text: string): number {
  return Math.max(1, Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN));
}

/** Estimated tokens of a chat: the text of all contents and roles together, at least 1. */
export function estimateChatTokens(messages: readonly unknown[]): number {
  let bytes = 0;
  for (const message of messages) {
    if (!isObject(message)) continue;
    if (typeof message.role === 'string') bytes += Buffer.byteLength(message.role);
    if (typeof message.content === 'string') bytes += Buffer.byteLength(message.content);
    if (!Array.isArray(message.content)) continue;
    for (const part of message.content) {
      if (isObject(part) && typeof part.text === 'string') bytes += Buffer.byteLength(part.text);
    }
  }
  return Math.max(1, Math.ceil(bytes / BYTES_PER_TOKEN));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
