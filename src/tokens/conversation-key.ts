// Which conversation a prompt belongs to, as far as its beginning tells: cheap, and the same for every turn.

/** Characters of a text that are looked at. */
const LOOKED_AT = 256;
/** A conversation is known by its system prompt and first question. */
const FIRST_MESSAGES = 2;

/** A number from 0 to 2³² − 1 that is the same for all turns of a chat. */
export function conversationOf(messages: readonly unknown[]): number {
  let key = FNV_OFFSET;
  for (const message of messages.slice(0, FIRST_MESSAGES)) {
    if (typeof message !== 'object' || message === null || !('content' in message)) continue;
    const { content } = message;
    if (typeof content === 'string') key = mix(key, content);
    else if (Array.isArray(content)) key = mix(key, firstText(content));
  }
  return key;
}

/** The same for prompts that begin alike. */
export function textStart(text: string): number {
  return mix(FNV_OFFSET, text);
}

/** FNV-1a over UTF-16 units, 32 bits. */
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

function mix(key: number, text: string): number {
  const end = Math.min(text.length, LOOKED_AT);
  let hash = key;
  for (let at = 0; at < end; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  return hash >>> 0;
}

function firstText(parts: readonly unknown[]): string {
  for (const part of parts) {
    if (typeof part === 'string') return part;
    if (typeof part === 'object' && part !== null && 'text' in part && typeof part.text === 'string')
      return part.text;
  }
  return '';
}
