import { describe, expect, it } from 'vitest';
import { type LogFields, NO_LOG } from '../plugin/index.ts';
import { containRejections } from './stray-rejections.ts';

describe('stray rejections', () => {
  it('are logged, ever more seldom, and left to Node again afterwards', () => {
    const before = process.listeners('unhandledRejection');
    const logged: (LogFields | undefined)[] = [];
    const release = containRejections({ ...NO_LOG, error: (_message, fields) => logged.push(fields) });
    const [listener] = process.listeners('unhandledRejection').filter((one) => !before.includes(one));
    for (let count = 0; count < 5; count += 1) listener?.(new Error('no answer'), Promise.resolve());
    expect(logged).toEqual([1, 2, 4].map((rejections) => ({ error: 'no answer', rejections })));
    release();
    expect(process.listeners('unhandledRejection')).toEqual(before);
  });
});
