import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadTextTokenizer } from './builtin/text-tokenizer.ts';
import { TINY_TOKENIZER } from './builtin/tiny-files.ts';
import { compareTokens, type TokenFacts } from './token-agreement.ts';

const tiny = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
const FACTS: TokenFacts = {
  size: tiny.size,
  specialIds: new Set(tiny.addedTokens.filter(({ isSpecial }) => isSpecial).map(({ id }) => id)),
};
const [endOfText = 0] = tiny.encode('<|endoftext|>');

const MESSAGES = [
  { role: 'system', content: 'You answer in one word. Today is a day in May.' },
  { role: 'user', content: 'What pulls the goods and looks like a town on rails?' },
];
const ids = (text: string): Uint32Array => tiny.encode(text, false);
const rendered = tiny.renderChat(MESSAGES, { addGenerationPrompt: true });
const own = ids(rendered);
const cause = (engine: Iterable<number>, router: Uint32Array = own): string => {
  const found = compareTokens(router, Uint32Array.from(engine), FACTS);
  return found.agrees ? 'agrees' : found.cause;
};

describe('compareTokens', () => {
  it('agrees on the same ids, and on none', () => {
    expect(compareTokens(own, own.slice(), FACTS)).toEqual({ agrees: true, tokens: own.length });
    expect(compareTokens(new Uint32Array(0), new Uint32Array(0), null)).toEqual({ agrees: true, tokens: 0 });
  });

  it.each<[string, () => Iterable<number>, Uint32Array?]>([
    ['start_token_missing', () => [endOfText, ...own]],
    ['start_token_extra', () => own, Uint32Array.of(endOfText, ...own)],
    ['start_token_doubled', () => [endOfText, endOfText, ...own], Uint32Array.of(endOfText, ...own)],
    ['truncated', () => own.slice(0, 20)],
    ['truncated', () => own.slice(10)],
    ['generation_prompt', () => ids(tiny.renderChat(MESSAGES, { addGenerationPrompt: false }))],
    ['other_vocabulary', () => [...own].map((id) => id + 100_000)],
    ['other_vocabulary', () => [...own].map((id) => (id * 7 + 301) % 256)],
    ['other_template', () => ids(rendered.replaceAll('<|im_end|>\n', '\n'))],
    ['other_template', () => ids(rendered.slice(rendered.indexOf('<|im_start|>user')))],
    ['other_text', () => ids(rendered.replace('May', 'June'))],
  ])('names the likely cause: %s', (expected, engine, router) => {
    expect(cause(engine(), router)).toBe(expected);
  });

  it('says where, how long, and what to do, and nothing of the prompt', () => {
    const found = compareTokens(own, ids(rendered.replace('May', 'June')), FACTS);
    if (found.agrees) throw new Error('they differ');
    expect(found.at).toBe(ids(rendered.slice(0, rendered.indexOf(' May'))).length);
    expect(found.words).toBe(
      `the special tokens agree, but not the text between them: a date, tool schemas, or the way parts of a message are put together differ; set tokens.render_as to the engine, or use tokens: { source: engine } (first at token ${found.at} of ${found.routerTokens} here, ${found.engineTokens} there)`,
    );
  });

  it('finds the first difference of any two lists, and none only where there is none', () => {
    const list = fc.array(fc.nat(6), { maxLength: 30 });
    fc.assert(
      fc.property(list, list, fc.boolean(), (a, b, known) => {
        const found = compareTokens(Uint32Array.from(a), Uint32Array.from(b), known ? FACTS : null);
        const equal = a.length === b.length && a.every((id, index) => id === b[index]);
        expect(found.agrees).toBe(equal);
        if (found.agrees) return;
        expect(a.slice(0, found.at)).toEqual(b.slice(0, found.at));
        expect(a[found.at]).not.toBe(b[found.at]);
        expect(found.words.length).toBeGreaterThan(40);
      }),
    );
  });
});
