import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readGenerateAnswer } from './generate-answer.ts';
import { readGenerateChunk } from './generate-chunk.ts';

const DATE = 'Tue, 14 Nov 2023 22:13:20 GMT';
const CREATED = 1_700_000_000;

/** One object of a `/generate` answer after `tokens` output tokens. */
function generated(text: string, ids: number[] | null, tokens: number, finish: object | null = null): string {
  return JSON.stringify({
    text,
    ...(ids === null ? null : { output_ids: ids }),
    meta_info: {
      id: 'req-1',
      finish_reason: finish,
      prompt_tokens: 9,
      completion_tokens: tokens,
      cached_tokens: 8,
    },
  });
}

function read(
  chunks: readonly (string | Uint8Array)[],
  over: { stream?: boolean; options?: object; cached?: number } = {},
) {
  const { stream = true, options, cached } = over;
  let out = '';
  const counted: number[] = [];
  const request = {
    requestId: 'req-1',
    servedAs: 'tiny-sim',
    stream,
    body: { prompt: 'x', ...(options && { stream_options: options }) },
    ...(cached === undefined ? {} : { prefilledCachedTokens: () => cached }),
  };
  const reader = readGenerateAnswer(
    request,
    {
      relay: (bytes) => {
        out += Buffer.from(bytes).toString('utf8');
      },
      tokens: (count) => counted.push(count),
    },
    DATE,
  );
  for (const chunk of chunks) reader.data(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
  return { report: reader.end(), out, counted };
}

const event = (data: string): string => `data: ${data}\n\n`;
const LENGTH = { type: 'length', length: 3 };
const END = event('[DONE]');
/** The same three tokens, as a server writes them that repeats what it said, and as one that does not. */
const CUMULATIVE = [
  event(generated('aé', [1], 1)),
  event(generated('aéa', [1, 2], 2)),
  event(generated('aéaaé', [1, 2, 3], 3, LENGTH)),
  END,
];
const INCREMENTAL = [
  event(generated('aé', [1], 1)),
  event(generated('a', [2], 2)),
  event(generated('aé', [3], 3, LENGTH)),
  END,
];
const chunk = (text: string, finish: string | null) =>
  event(
    `{"id":"req-1","object":"text_completion","created":${CREATED},"model":"tiny-sim","choices":[{"index":0,"text":"${text}","logprobs":null,"finish_reason":${finish === null ? null : `"${finish}"`},"matched_stop":null}]}`,
  );
const USAGE =
  '"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}';

describe('a stream of /generate', () => {
  it.each([
    ['that repeats what it said', CUMULATIVE],
    ['that says only what is new', INCREMENTAL],
  ])('%s becomes the same completion', (_, chunks) => {
    const { out, report, counted } = read(chunks);
    expect(out).toBe(chunk('aé', null) + chunk('a', null) + chunk('aé', 'length') + END);
    expect(counted).toEqual([1, 1, 1]);
    expect(report).toEqual({
      promptTokens: 9,
      cachedTokens: 8,
      outputTokens: 3,
      finishReason: 'length',
      source: 'usage',
    });
  });

  it('tells the two apart by the text where no ids are listed', () => {
    const without = (...texts: string[]) =>
      read([...texts.map((text, at) => event(generated(text, null, at + 1))), END]).out;
    expect(without('a', 'ab', 'abc')).toBe(chunk('a', null) + chunk('b', null) + chunk('c', null) + END);
    expect(without('a', 'b', 'c')).toBe(chunk('a', null) + chunk('b', null) + chunk('c', null) + END);
  });

  it('counts several tokens in one chunk, and writes none for half a character', () => {
    const { out, counted } = read([
      event(generated('ab', [1, 2], 2)),
      event(generated('ab', [1, 2, 3], 3)),
      END,
    ]);
    expect(out).toBe(chunk('ab', null) + END);
    expect(counted).toEqual([2, 1]);
  });

  it('tells the usage at the end, or always, to those who asked', () => {
    expect(read(CUMULATIVE, { options: { include_usage: true } }).out).toBe(
      chunk('aé', null) +
        chunk('a', null) +
        chunk('aé', 'length') +
        event(
          `{"id":"req-1","object":"text_completion","created":${CREATED},"model":"tiny-sim","choices":[],${USAGE}}`,
        ) +
        END,
    );
    const always = read(CUMULATIVE, { options: { include_usage: true, continuous_usage_stats: true } }).out;
    expect(always.match(/"usage"/g)).toHaveLength(4);
  });

  it('passes on what is no chunk: errors within the stream, and comments', () => {
    const error = event('{"error":{"message":"the scheduler died","code":500}}');
    const { out, report } = read([`: ping\n\n${error}${END}`]);
    expect(out).toBe(`: ping\n\n${error}${END}`);
    expect(report.source).toBe('none');
  });

  it('reads the same on every split of its bytes', () => {
    const bytes = Buffer.from(CUMULATIVE.join(''));
    const whole = read([bytes]).out;
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 6 }), (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), bytes.length];
        const parts = ends.map((end, at) => bytes.subarray(at === 0 ? 0 : ends[at - 1], end));
        expect(read(parts).out).toBe(whole);
      }),
    );
  });
});

describe('a whole answer of /generate', () => {
  it('becomes a completion, with the cached tokens of the engine that computed the prompt', () => {
    const answer = generated('abc', [1, 2, 3], 3, { type: 'stop', matched: 2 });
    const head = `{"id":"req-1","object":"text_completion","created":${CREATED},"model":"tiny-sim",`;
    const { out, report, counted } = read([answer.slice(0, 20), answer.slice(20)], { stream: false });
    expect(out).toBe(
      `${head}"choices":[{"index":0,"text":"abc","logprobs":null,"finish_reason":"stop","matched_stop":2}],${USAGE}}`,
    );
    expect(counted).toEqual([]);
    expect(report.cachedTokens).toBe(8);
    const handed = read([answer], { stream: false, cached: 5 });
    expect(handed.report.cachedTokens).toBe(5);
    expect(handed.out).toContain('"cached_tokens":5');
  });

  it('is passed on when it is something else', () => {
    const { out, report } = read(['{"text":1}'], { stream: false });
    expect([out, report.source]).toEqual(['{"text":1}', 'none']);
  });
});

it('reads any text without throwing, and any stream to its end', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      readGenerateChunk(text);
      const { report } = read([event(text.replaceAll('\n', '')), text]);
      expect(report.outputTokens === null || report.outputTokens >= 0).toBe(true);
    }),
  );
  fc.assert(
    fc.property(
      fc.array(fc.record({ text: fc.string(), ids: fc.nat(5), tokens: fc.nat(9) }), { maxLength: 8 }),
      (chunks) => {
        const events = chunks.map(({ text, ids, tokens }) =>
          event(generated(text, Array(ids).fill(1), tokens)),
        );
        expect(read(events).counted.every((count) => count > 0)).toBe(true);
      },
    ),
  );
});
