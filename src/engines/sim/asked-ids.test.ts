// Prompt token ids that the router asks for on its own account: read, and kept from clients who did not ask.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { EngineReport, EngineRequest } from '../types.ts';
import { readAnswer } from './answer-reader.ts';
import { readChunk } from './chunk.ts';

function read(answer: string, over: Partial<EngineRequest>): { shown: string; report: EngineReport } {
  const shown: string[] = [];
  const reader = readAnswer(
    { stream: false, body: {}, asksPromptTokenIds: true, ...over },
    { relay: (bytes) => shown.push(Buffer.from(bytes).toString()), tokens: () => undefined },
  );
  const bytes = Buffer.from(answer);
  for (let at = 0; at < bytes.length; at += 7) reader.data(bytes.subarray(at, at + 7));
  const report = reader.end();
  return { shown: shown.join(''), report };
}

const USAGE = { prompt_tokens: 3, completion_tokens: 2 };
const COMPLETION = {
  id: 'c',
  choices: [{ text: 'a', prompt_token_ids: [7, 8, 4294967295], token_ids: [1, 2], finish_reason: 'length' }],
  usage: USAGE,
};
const CHAT = {
  id: 'c',
  prompt_token_ids: [7, 8],
  choices: [{ message: { content: 'prompt_token_ids' }, token_ids: [1, 2], finish_reason: 'stop' }],
  usage: USAGE,
};

it('are read from whole answers and taken out of them', () => {
  const completion = read(JSON.stringify(COMPLETION), {});
  expect(completion.report.promptTokenIds).toEqual(Uint32Array.of(7, 8, 4294967295));
  expect(completion.report).toMatchObject({ promptTokens: 3, outputTokens: 2, finishReason: 'length' });
  expect(JSON.parse(completion.shown)).toEqual({
    id: 'c',
    choices: [{ text: 'a', finish_reason: 'length' }],
    usage: USAGE,
  });
  const chat = read(JSON.stringify(CHAT), {});
  expect(chat.report.promptTokenIds).toEqual(Uint32Array.of(7, 8));
  expect(JSON.parse(chat.shown)).toEqual({
    id: 'c',
    choices: [{ message: { content: 'prompt_token_ids' }, finish_reason: 'stop' }],
    usage: USAGE,
  });
});

it('are read from the first chunk of a stream, whose tokens are counted all the same', () => {
  const chunk = (choice: object, more: object = {}) =>
    `data: ${JSON.stringify({ ...more, choices: [choice] })}\n\n`;
  const stream = [
    chunk({ text: 'ab', prompt_token_ids: [5], token_ids: [1, 2] }),
    chunk({ text: 'c', token_ids: [3], finish_reason: 'length' }),
    'data: [DONE]\n\n',
  ].join('');
  const { report, shown } = read(stream, { stream: true });
  expect(report).toMatchObject({ promptTokenIds: Uint32Array.of(5), outputTokens: 3 });
  expect(shown).toBe(
    'data: {"choices":[{"text":"ab"}]}\n\ndata: {"choices":[{"text":"c","finish_reason":"length"}]}\n\ndata: [DONE]\n\n',
  );
});

it('stay in the answer of a client who asked for them, and are nobody’s where they are no ids', () => {
  const answer = JSON.stringify(COMPLETION);
  const { report, shown } = read(answer, { body: { return_token_ids: true } });
  expect(shown).toBe(answer);
  // Answers that pass as they come are read for their numbers alone.
  expect(report.promptTokenIds).toEqual(Uint32Array.of(7, 8, 4294967295));
  expect(read(answer.replace('4294967295', '4294967296'), {}).report.promptTokenIds).toBeUndefined();
  expect(read(answer, { asksPromptTokenIds: false }).shown).toBe(answer);
});

it('are ids or nothing, whatever an engine sends', () => {
  const list = fc.oneof(
    fc.array(fc.oneof(fc.nat(), fc.integer(), fc.double(), fc.string(), fc.constant(null))),
    fc.anything(),
  );
  fc.assert(
    fc.property(list, list, (own, ofChoice) => {
      const text = JSON.stringify({
        prompt_token_ids: own,
        choices: [{ prompt_token_ids: ofChoice }, null, 5],
      });
      const ids = readChunk(text ?? '')?.promptTokenIds ?? null;
      const isIds = (value: unknown): boolean =>
        Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0 && id <= 0xffffffff);
      // What JSON cannot write it leaves out or writes as null.
      const [first, second] = [own, ofChoice].map(
        (value) => JSON.parse(JSON.stringify({ value }))?.value as unknown,
      );
      const expected = isIds(first) ? first : isIds(second) ? second : null;
      expect(ids === null ? null : Array.from(ids)).toEqual(expected);
    }),
  );
});
