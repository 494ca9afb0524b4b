import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EngineReport, EngineRequest } from '../types.ts';
import { readAnswer } from './answer-reader.ts';
import { readChunk } from './chunk.ts';

const USAGE = '{"prompt_tokens":40,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":32}}';
const CHAT = [
  'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}\n\n',
  'data: {"choices":[{"delta":{"content":"He"},"finish_reason":null}]}\n\n',
  ': ping\n\n',
  'data: {"choices":[{"delta":{"content":"é"},"finish_reason":null}]}\n\n',
  'data: {"choices":[{"delta":{"content":"!"},"finish_reason":"length"}]}\n\n',
];
const USAGE_CHUNK = `data: {"choices":[],"usage":${USAGE}}\n\n`;
const DONE = 'data: [DONE]\n\n';

function read(
  chunks: readonly Uint8Array[],
  over: Pick<EngineRequest, 'stream' | 'body'>,
): { text: string; tokens: number; report: EngineReport } {
  const parts: Uint8Array[] = [];
  let tokens = 0;
  const reader = readAnswer(over, {
    relay: (bytes) => parts.push(bytes),
    tokens: (count) => {
      tokens += count;
    },
  });
  for (const chunk of chunks) reader.data(chunk);
  const report = reader.end();
  return { text: Buffer.concat(parts).toString(), tokens, report };
}

describe('readAnswer of a stream', () => {
  const whole = Buffer.from([...CHAT, USAGE_CHUNK, DONE].join(''));
  const report = {
    promptTokens: 40,
    cachedTokens: 32,
    outputTokens: 3,
    finishReason: 'length',
    source: 'usage',
  };

  it('withholds the usage chunk that only the router asked for', () => {
    const answer = read([whole], { stream: true, body: {} });
    expect(answer).toEqual({ text: [...CHAT, DONE].join(''), tokens: 3, report });
  });

  it('relays every byte when the client asked for usage itself', () => {
    const answer = read([whole], { stream: true, body: { stream_options: { include_usage: true } } });
    expect(answer.text).toBe(whole.toString());
    expect(answer.report).toEqual(report);
  });

  it('gives the same answer on every split', () => {
    for (let at = 0; at <= whole.length; at += 1) {
      const answer = read([whole.subarray(0, at), whole.subarray(at)], { stream: true, body: {} });
      expect(answer).toEqual({ text: [...CHAT, DONE].join(''), tokens: 3, report });
    }
  });

  it('relays what it cannot read unchanged and reports nothing', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 6 }), (chunks) => {
        const parts: Uint8Array[] = [];
        const reader = readAnswer(
          { stream: true, body: {} },
          {
            relay: (bytes) => parts.push(bytes),
            tokens() {},
          },
        );
        for (const chunk of chunks) reader.data(chunk);
        expect(reader.end().source).toBe('none');
        expect(Buffer.concat(parts)).toEqual(Buffer.concat(chunks));
      }),
    );
  });

  it('counts output by itself when the engine reports no usage', () => {
    expect(read([Buffer.from(CHAT.join(''))], { stream: true, body: {} }).report).toEqual({
      promptTokens: null,
      cachedTokens: null,
      outputTokens: 3,
      finishReason: 'length',
      source: 'none',
    });
  });
});

describe('readAnswer of a whole answer', () => {
  it('relays the bytes, reads usage and finish reason, and tells of no token in between', () => {
    const body = Buffer.from(`{"choices":[{"text":"abc","finish_reason":"stop"}],"usage":${USAGE}}`);
    expect(read([body.subarray(0, 30), body.subarray(30)], { stream: false, body: {} })).toEqual({
      text: body.toString(),
      tokens: 0,
      report: { promptTokens: 40, cachedTokens: 32, outputTokens: 3, finishReason: 'stop', source: 'usage' },
    });
  });
});

describe('readChunk', () => {
  const tokens = (choice: string): number => readChunk(`{"choices":[${choice}]}`)?.tokens ?? -1;

  it('counts a token for text, for half a character and for thoughts, none for role and finish', () => {
    expect(tokens('{"text":"a"}')).toBe(1);
    expect(tokens('{"text":"","finish_reason":null}')).toBe(1);
    expect(tokens('{"text":"","finish_reason":"stop"}')).toBe(0);
    expect(tokens('{"delta":{"role":"assistant","content":""}}')).toBe(0);
    expect(tokens('{"delta":{"content":""},"finish_reason":null}')).toBe(1);
    expect(tokens('{"delta":{},"finish_reason":"stop"}')).toBe(0);
    expect(tokens('{"delta":{"reasoning_content":"hm"}}')).toBe(1);
    expect(tokens('{"delta":{"content":"abc"},"token_ids":[1,2,3]}')).toBe(3);
  });

  it('never throws on any JSON', () => {
    fc.assert(fc.property(fc.json(), (text) => void readChunk(text)));
  });
});
