// Hint policies in threads of their own, through a configured host.
import { afterAll, describe, expect, it } from 'vitest';
import { IsolationBench, outcomes } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterAll(() => bench.close());

const mark = (n: string) => `[{ type: 'acme.mark', version: '1.0', payload: { n: ${n} } }]`;

bench.write(
  'told.ts',
  `import { isMainThread } from 'node:worker_threads';
import { defineHintPolicy, type HintAction } from 'pointsman/plugin';
export const told = defineHintPolicy({
  type: 'told',
  isolation: 'thread',
  create: ({ rng, log, partition }) => ({
    buildHints({ promptTokens }): readonly HintAction[] {
      if (promptTokens === 1) for (;;);
      if (promptTokens === 2) process.exit(3);
      if (promptTokens === 3) throw new Error('as told');
      if (promptTokens === 4) { log.info('heard', { model: partition.model }); return []; }
      if (promptTokens === 5) {
        const hog: unknown[] = [];
        for (;;) hog.push(new Array(1000).fill(hog.length));
      }
      return ${mark('isMainThread ? -1 : promptTokens')};
    },
  }),
});
export const good = defineHintPolicy({
  type: 'good',
  create: ({ rng }) => ({ buildHints: () => ${mark('rng.next()')} }),
});
`,
);
const PLUGINS = 'plugins: [./told.ts]';
const hints = (...list: string[]) =>
  `${PLUGINS}\nworker_selection: { aggregated: { hints: [${list.join(', ')}] } }`;

describe('a policy in a thread', () => {
  it('answers in list order with the others', async () => {
    const { start, run } = await bench.host(
      hints('{ type: told }', '{ type: good }', '{ type: told, name: again }'),
    );
    const { started, result } = start();
    expect('pending' in started).toBe(true);
    const { hint, policies } = await result;
    expect(policies.map(({ name, result: what }) => [name, what])).toEqual([
      ['told', 'sent'],
      ['good', 'sent'],
      ['again', 'sent'],
    ]);
    expect(hint?.actions.map(({ action_id, payload }) => [action_id, payload.n])).toEqual([
      ['a1', 100],
      ['a2', expect.any(Number)],
      ['a3', 100],
    ]);
    expect(outcomes(await run({ promptTokens: 3 }))).toEqual([
      'told dropped threw',
      'good sent',
      'again dropped threw',
    ]);
  });
});
