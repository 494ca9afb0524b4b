import { describe, expect, it } from 'vitest';
import { explainThrown, HINT_MEMBERS } from './undeclared-input.ts';

/** What reading throws, by the engine that runs this. */
function thrownBy(read: (context: never) => unknown, context: object = {}): unknown {
  try {
    read(context as never);
  } catch (thrown) {
    return thrown;
  }
  throw new Error('nothing was thrown');
}

const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

describe('reading an input that is not declared', () => {
  it.each<[string, (context: never) => unknown, string]>([
    [
      'through the context',
      (context: { load: { activeRequests: number } }) => context.load.activeRequests,
      "Cannot read properties of undefined (reading 'activeRequests'); load is there only for those who list 'load' under inputs",
    ],
    [
      'taken out of it',
      ({ copyLocations }: { copyLocations: { bestSource(n: number): null } }) => copyLocations.bestSource(1),
      "Cannot read properties of undefined (reading 'bestSource'); copyLocations is there only for those who list 'kv-copy-locations' under inputs",
    ],
    [
      'two levels deep',
      ({ cache: { diskBlocks } }: { cache: { diskBlocks: number } }) => diskBlocks,
      "; cache is there only for those who list 'cache' under inputs",
    ],
  ])('is named: %s', (_, read, text) => {
    const thrown = thrownBy(read);
    const explained = explainThrown(thrown, ['residency'], HINT_MEMBERS);
    expect(messageOf(explained)).toContain(text);
    expect(explained).toMatchObject({ cause: thrown });
  });

  it('is told from other mistakes', () => {
    const read = ({ load }: { load: { activeRequests: number } }) => load.activeRequests;
    const others: [unknown, readonly string[]][] = [
      [thrownBy(read), ['load']],
      [thrownBy(({ rows }: { rows: string[] }) => rows.length), []],
      [thrownBy(read, { load: null }), []],
      [new Error("Cannot read properties of undefined (reading 'activeRequests')"), []],
      ['activeRequests', []],
      [new Proxy(new TypeError('x'), { get: () => Symbol.iterator }), []],
    ];
    for (const [thrown, declared] of others)
      expect(explainThrown(thrown, declared, HINT_MEMBERS)).toBe(thrown);
  });
});
