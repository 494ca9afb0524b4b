import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { OUTPUT_BYTES_PER_SECOND, passOutput } from './thread-output.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('output is passed on up to a budget; then nothing is read for the rest of the second', async () => {
  const stream = new PassThrough();
  let passed = 0;
  let dropped = 0;
  passOutput(stream, {
    write: (chunk) => {
      passed += chunk.length;
    },
    dropped: (bytes) => {
      dropped += bytes;
    },
  });
  stream.write('told\n');
  await turn();
  expect([passed, dropped]).toEqual([5, 0]);
  stream.write('x'.repeat(OUTPUT_BYTES_PER_SECOND));
  await turn();
  expect([passed, dropped, stream.isPaused()]).toEqual([OUTPUT_BYTES_PER_SECOND, 5, true]);
  stream.write('later');
  await turn();
  expect(passed).toBe(OUTPUT_BYTES_PER_SECOND);
  vi.advanceTimersByTime(1000);
  await turn();
  expect([passed, dropped]).toEqual([OUTPUT_BYTES_PER_SECOND + 5, 5]);
  stream.destroy();
  await turn();
  expect(vi.getTimerCount()).toBe(0);
});
