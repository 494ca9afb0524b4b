import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyGguf, writeTinyGguf } from '../../tests/support/tiny-gguf.ts';
import { loadGgufTokenizer } from './builtin/gguf-tokenizer.ts';
import type { TextTokenizer } from './builtin/text-tokenizer.ts';
import { createTokenizerPool } from './tokenizer-pool.ts';

let folder = '';
let path = '';
let tokenizer: TextTokenizer;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-gguf-'));
  path = join(folder, 'tiny.gguf');
  writeTinyGguf(path);
  tokenizer = await loadGgufTokenizer(path, null);
});
afterAll(async () => {
  await tokenizer.dispose?.();
  rmSync(folder, { recursive: true, force: true });
});

const CHAT = [{ role: 'user', content: 'what is on the track' }];

describe('the tokenizer of a GGUF model', () => {
  it('gives ids that spell the text, behind the token that begins one', () => {
    const ids = tokenizer.encode('the train é 早');
    expect(ids[0]).toBe(1);
    expect(tokenizer.decode(ids.subarray(1)).trim()).toBe('the train é 早');
    expect(tokenizer.encode('the train é 早', false)).toEqual(ids.subarray(1));
  });

  it('renders chats with the template in the model, whose marks are one token each', () => {
    const text = tokenizer.renderChat(CHAT, { addGenerationPrompt: true });
    expect(text).toBe('<|im_start|>user\nwhat is on the track<|im_end|>\n<|im_start|>assistant\n');
    const ids = tokenizer.encode(text, false);
    expect(ids.filter((id) => id === 259).length).toBe(2);
    expect(ids.filter((id) => id === 260).length).toBe(1);
  });

  it('takes another template where one is named', async () => {
    const template = join(folder, 'other.jinja');
    writeFileSync(template, '{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}');
    const other = await loadGgufTokenizer(path, template);
    const text = other.renderChat(CHAT, { addGenerationPrompt: true });
    expect(text).toBe('<s>[what is on the track]');
    expect(other.encode(text, true).filter((id) => id === 1).length).toBe(1);
    await other.dispose?.();
  });

  it('says in words what is wrong with a file', async () => {
    const bad = join(folder, 'bad.gguf');
    const refusal = async (bytes: Uint8Array): Promise<string> => {
      writeFileSync(bad, bytes);
      return loadGgufTokenizer(bad, null).then(
        () => 'loaded',
        (thrown: Error) => thrown.message,
      );
    };
    expect(await refusal(new Uint8Array(100))).toMatch(
      /^.*bad\.gguf is no GGUF model that llama\.cpp loads \(.+\)$/,
    );
    expect(await refusal(tinyGguf().subarray(0, 2000))).toMatch(
      /bad\.gguf is no GGUF model that llama\.cpp loads/,
    );
    await expect(loadGgufTokenizer(join(folder, 'none.gguf'), null)).rejects.toMatchObject({
      code: 'PM_LLAMA_MODEL',
      message: `${join(folder, 'none.gguf')} does not exist`,
    });
  });

  it('runs in threads of the pool, which end without harm to the process', async () => {
    const pool = createTokenizerPool({ tokenizer: path, template: null, threads: 2 });
    await pool.start();
    const chat = {
      messages: CHAT,
      tools: undefined,
      addGenerationPrompt: true,
      addSpecialTokens: false,
      variables: {},
    };
    const text = tokenizer.renderChat(CHAT, { addGenerationPrompt: true });
    expect(await pool.encodeChat(chat)).toMatchObject({ ids: tokenizer.encode(text, false) });
    const long = 'the train '.repeat(50_000);
    const running = pool.encodePrompt(long, true);
    const closed = pool.close();
    expect((await running).ids).toEqual(tokenizer.encode(long));
    await closed;
    expect(tokenizer.encode('still here').length).toBeGreaterThan(1);
  });
});
