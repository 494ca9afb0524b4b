// The tokenizer inside a GGUF model, run by llama.cpp itself: its ids are those of an engine that runs the same file.
import { readFileSync } from 'node:fs';
import { PointsmanError, systemReason } from '../../plugin/index.ts';
import type { GgufModel } from '../llama-types.ts';
import { loadGguf, loadNodeLlama } from '../node-llama.ts';
import type { AddedToken } from './added-tokens.ts';
import { type ChatTemplate, parseTemplate, renderChat } from './chat-template.ts';
import type { RenderStyle } from './render-style.ts';
import type { TextTokenizer } from './text-tokenizer.ts';

/**
 * Loads the vocabulary of a model, not its weights.
 * @param templatePath a Jinja chat template, or null: the one in the model, if any.
 * @param style how messages and tools are handed to the template.
 * @throws PointsmanError PM_LLAMA_MISSING, PM_LLAMA_MODEL, PM_TOKENIZER_INVALID
 */
export async function loadGgufTokenizer(
  path: string,
  templatePath: string | null,
  style: RenderStyle = 'plain',
): Promise<TextTokenizer> {
  const llama = await loadNodeLlama();
  const dispose = (): Promise<void> => llama.dispose();
  try {
    const model = await loadGguf(llama, path, true);
    return { ...ggufTokenizer(model, path, templatePath, style), dispose };
  } catch (thrown) {
    await dispose();
    throw thrown;
  }
}

/** The tokenizer of a model that is loaded. */
function ggufTokenizer(
  model: GgufModel,
  path: string,
  templatePath: string | null,
  style: RenderStyle,
): TextTokenizer {
  const { tokenizer } = model.fileInfo.metadata;
  const text = templatePath === null ? (tokenizer.chat_template ?? null) : readTemplate(templatePath);
  const { bos, bosString, eosString, shouldPrependBosToken } = model.tokens;
  const chatTemplate: ChatTemplate = {
    ...parseTemplate(text, templatePath ?? path),
    specialTokens: { bos_token: bosString ?? '', eos_token: eosString ?? '' },
    where: path,
    style,
  };
  const start = shouldPrependBosToken ? bos : null;
  return {
    size: tokenizer.ggml.tokens.length,
    addedTokens: controlTokens(tokenizer.ggml.tokens, tokenizer.ggml.token_type ?? []),
    hasTemplate: chatTemplate.template !== null,
    encode(prompt, addSpecialTokens = true) {
      const ids = tokenize(model, prompt);
      // As llama.cpp does: a template that writes the token itself has had its way.
      const begins = !addSpecialTokens || start === null || ids[0] === start;
      return Uint32Array.from(begins ? ids : [start, ...ids]);
    },
    renderChat: (messages, options) => renderChat(chatTemplate, messages, options),
    decode(ids) {
      const known = Array.from(ids).filter((id) => id < tokenizer.ggml.tokens.length);
      return model.detokenize(known, true);
    },
  };
}

/** `LLAMA_TOKEN_TYPE_CONTROL` in the metadata of a model. */
const CONTROL = 3;

/** None is exact: what stands behind a mark may be encoded in another way than at the start of a text. */
function controlTokens(tokens: readonly string[], types: readonly number[]): AddedToken[] {
  return tokens.flatMap((content, id) =>
    types[id] === CONTROL && content !== '' ? [{ content, id, isExact: false, isSpecial: true }] : [],
  );
}

/** What llama.cpp says when it fails may quote the text, which is somebody's prompt. */
function tokenize(model: GgufModel, prompt: string): readonly number[] {
  try {
    return model.tokenize(prompt, true);
  } catch (cause) {
    const kind = cause instanceof Error ? cause.name : typeof cause;
    throw new PointsmanError('PM_TOKENIZER_FAILED', `the tokenizer could not encode a text (${kind})`, {
      cause,
    });
  }
}

function readTemplate(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const problem = `cannot be read: ${systemReason(cause)}`;
    throw new PointsmanError('PM_TOKENIZER_INVALID', `${path} ${problem}`, { cause });
  }
}
