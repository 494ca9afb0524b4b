import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AssistantAnswer, MAX_ANSWER_BYTES } from './assistant-answer.ts';

const event = (value: unknown) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const delta = (said: object) => event({ choices: [{ index: 0, delta: said, finish_reason: null }] });

const finished = (reason: string) => event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
const STOP = finished('stop');

/** What is made of an answer that comes in pieces of so many bytes. */
function read(isStream: boolean, text: string, piece = text.length) {
  const answer = new AssistantAnswer(isStream);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += piece) answer.push(bytes.subarray(at, at + piece));
  return answer.message();
}

describe('what an assistant said', () => {
  const stream = [
    delta({ role: 'assistant', content: '' }),
    delta({ reasoning_content: 'hm' }),
    ': comment\n\n',
    delta({ content: 'Gr\u00fc\u00df' }),
    delta({ content: ' dich' }),
    event({ choices: [{ delta: {}, finish_reason: 'stop' }] }),
    event({ choices: [], usage: { prompt_tokens: 3 } }),
    event('[DONE]'),
  ].join('');

  it('is the text of a stream, without what it thought, however it is cut', () => {
    for (let piece = 1; piece < 40; piece += 1) {
      expect(read(true, stream, piece)).toEqual({ role: 'assistant', content: 'Gr\u00fc\u00df dich' });
    }
  });

  it('is the message of a whole answer', () => {
    const whole = { choices: [{ message: { role: 'assistant', content: 'hi', reasoning_content: 'hm' } }] };
    expect(read(false, JSON.stringify(whole), 7)).toEqual({ role: 'assistant', content: 'hi' });
  });

  it.each([
    ['ends without a reason', [delta({ content: 'Yes, but' })]],
    ['is cut within an event', [delta({ content: 'Yes' }), 'data: {"choices":[{"del']],
    ['ends with an error', [delta({ content: 'Yes' }), event({ error: { message: 'out of memory' } }), STOP]],
    ['was given up by the engine', [delta({ content: 'Yes' }), finished('abort')]],
  ])('is not known of a stream that %s', (_, events) => {
    expect(read(true, [...events, event('[DONE]')].join(''))).toBeNull();
  });

  it('is not known of an answer that is an error', () => {
    const error = {
      error: { message: 'no' },
      choices: [{ message: { content: 'a' }, finish_reason: 'error' }],
    };
    expect(read(false, JSON.stringify(error))).toBeNull();
  });

  it('holds tool calls, put together from their pieces', () => {
    const call = (index: number, part: object) => delta({ tool_calls: [{ index, ...part }] });
    const text = [
      call(1, { id: 'c1', type: 'function', function: { name: 'grep', arguments: '' } }),
      call(0, { id: 'c0', type: 'function', function: { name: 'ls', arguments: '{"a"' } }),
      call(0, { function: { arguments: ':1}' } }),
      call(1, { function: { arguments: '{}' } }),
      finished('tool_calls'),
    ].join('');
    const tool_calls = [
      { id: 'c0', type: 'function', function: { name: 'ls', arguments: '{"a":1}' } },
      { id: 'c1', type: 'function', function: { name: 'grep', arguments: '{}' } },
    ];
    expect(read(true, text)).toEqual({ role: 'assistant', content: '', tool_calls });
    const whole = { choices: [{ message: { content: null, tool_calls } }] };
    expect(read(false, JSON.stringify(whole))).toEqual({ role: 'assistant', content: '', tool_calls });
  });

  it.each([
    [true, ''],
    [true, event('[DONE]')],
    [true, event({ choices: [] })],
    [true, event({ choices: [{ delta: { content: 7, tool_calls: [null, {}, { function: 'x' }] } }] })],
    [true, `${delta({ content: 'a' })}${event('{"choices"')}`],
    [false, ''],
    [false, 'null'],
    [false, '{"choices":[null]}'],
    [false, '{"choices":[{"message":{"content":"a"}}]'],
  ])('is not known where it is empty or broken (stream %s): %s', (isStream, text) => {
    expect(read(isStream, text)).toBeNull();
  });

  it('is kept up to a limit, and nothing of it beyond', () => {
    const words = 'x'.repeat(MAX_ANSWER_BYTES / 4);
    const answer = new AssistantAnswer(true);
    for (let at = 0; at < 4; at += 1) answer.push(Buffer.from(delta({ content: words })));
    answer.push(Buffer.from(STOP));
    expect([answer.bytes, String(answer.message()?.content).length]).toEqual([
      MAX_ANSWER_BYTES,
      MAX_ANSWER_BYTES,
    ]);
    answer.push(Buffer.from(delta({ content: 'y' })));
    expect([answer.bytes, answer.message()]).toEqual([0, null]);
    const whole = new AssistantAnswer(false);
    whole.push(new Uint8Array(MAX_ANSWER_BYTES + 1));
    expect([whole.bytes, whole.message()]).toEqual([0, null]);
    const event = new AssistantAnswer(true);
    event.push(Buffer.from(delta({ content: 'x'.repeat(MAX_ANSWER_BYTES + 1) })));
    expect([event.bytes, event.message()]).toEqual([0, null]);
  });

  it('counts all that it keeps of tool calls, whichever member holds it', () => {
    const half = 'x'.repeat(MAX_ANSWER_BYTES / 2);
    for (const call of [{ function: { name: half } }, { id: half, function: {} }]) {
      const answer = new AssistantAnswer(true);
      answer.push(Buffer.from(delta({ tool_calls: [{ index: 0, ...call }] })));
      expect(answer.bytes).toBe(half.length + 64);
      answer.push(Buffer.from(delta({ tool_calls: [{ index: 1, ...call }] }) + STOP));
      expect([answer.bytes, answer.message()]).toEqual([0, null]);
    }
  });

  it('is read of any bytes without an error', () => {
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.array(
          fc.oneof(
            fc.uint8Array({ maxLength: 40 }),
            fc.json().map((text) => Buffer.from(event(text))),
          ),
        ),
        (isStream, chunks) => {
          const answer = new AssistantAnswer(isStream);
          for (const chunk of chunks) answer.push(chunk);
          const message = answer.message();
          if (message !== null) expect(message.role).toBe('assistant');
        },
      ),
    );
  });
});
