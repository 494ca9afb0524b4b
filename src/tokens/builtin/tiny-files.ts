// Where the tokenizer and chat template that come with the package lie (built by scripts/build-tiny-tokenizer.mjs).
import { fileURLToPath } from 'node:url';

const folder = new URL('../../../assets/tiny/', import.meta.url);

/** Paths of the built-in tokenizer and its chat template, for {@link loadTextTokenizer}. */
export const TINY_TOKENIZER: { readonly tokenizer: string; readonly template: string } = {
  tokenizer: fileURLToPath(new URL('tokenizer.json', folder)),
  template: fileURLToPath(new URL('chat_template.jinja', folder)),
};

/** Ids 0 to this, exclusive, are whole words of that tokenizer: any sequence of them decodes to text that encodes to itself. */
export const TINY_WORDS = 256;
