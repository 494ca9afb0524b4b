// A router that asks its engines for token ids, and one that has the files: in front of the same engines they find the same blocks.
import { expect, it } from 'vitest';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';

const LOCAL = `tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }`;

function engineYaml(urls: readonly string[], tokens = 'tokens: { source: engine }'): string {
  return routerYaml(urls).replace(LOCAL, tokens);
}

it('gets the ids from the engines themselves: later turns go where the first one is cached', async () => {
  const sims = await engines(3);
  const yaml = engineYaml(sims.engines.map(({ url }) => url));
  expect(yaml).toContain('source: engine');
  const on = await router(yaml);
  const openai = client(on.url);
  const blocks = (): number => on.core.index?.dump(0, 10_000).blocks.length ?? 0;
  for (let seed = 1; seed <= 4; seed += 1) {
    const messages: { role: 'user' | 'assistant'; content: string }[] = [
      { role: 'user', content: words(200, seed) },
    ];
    const before = blocks();
    const first = await openai.chat.completions.create({ model: 'tiny', messages, max_tokens: 4 });
    messages.push({ role: 'assistant', content: first.choices[0]?.message.content ?? '' });
    messages.push({ role: 'user', content: words(20, seed + 100) });
    // Its blocks are known once its events came: 12 whole ones at least.
    await until('the engine announced the blocks', () => blocks() >= before + 12);
    const second = await openai.chat.completions.create({ model: 'tiny', messages, max_tokens: 4 });
    const cached = second.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    expect(cached).toBeGreaterThanOrEqual(192);
  }
  const records = on.core.decisions?.list(100, {}) ?? [];
  expect(records.length).toBe(8);
  for (const { prompt } of records) expect(prompt.tokens_source).toBe('engine');
  const scraped = await on.metrics.text();
  expect(scraped).toContain('pointsman_engine_tokenize_total{model="tiny",outcome="answered"} 8');
  expect(on.readiness().warnings.filter((warning) => warning.includes('token'))).toEqual([]);
});

it('routes by an estimate, and says so, when no engine answers', async () => {
  const sims = await engines(1);
  const yaml = engineYaml([sims.engines[0]?.url ?? ''], 'tokens: { source: engine, timeout: 200ms }');
  const on = await router(yaml);
  const worker = on.core.fleet.workers()[0];
  expect(worker?.state).toBe('ready');
  await sims.stop();
  await client(on.url)
    .chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 })
    .catch(() => {});
  expect(on.readiness().warnings).toContainEqual(
    expect.stringMatching(
      /^model tiny (got no token ids from its engines in time|has no ready worker that can tokenize)/,
    ),
  );
});
