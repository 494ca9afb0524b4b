// Prompts with images: nobody but the engine knows the tokens of an image, so nothing of such a prompt may match, and the record says why.
import { expect, test } from 'vitest';
import { renderDecision } from '../src/observe/index.ts';
import { engines, router, routerYaml, until, words } from './live-support.ts';

const IMAGE = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };

test('a chat with an image matches nothing, however much of its text is cached, and says why', async () => {
  const { engines: list } = await engines(1, '--speed', '100');
  const on = await router(routerYaml(list.map(({ url }) => url)));
  const text = words(200, 3);
  const ask = async (content: unknown) => {
    const messages = [{ role: 'user', content }];
    const answer = await fetch(`${on.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'tiny', max_tokens: 1, messages }),
    });
    await answer.text();
    await until('it is recorded', () => on.core.decisions?.list(1, {})[0]?.outcome != null);
    const record = on.core.decisions?.list(1, {})[0];
    if (record === undefined) throw new Error('nothing was decided');
    return record;
  };
  const part = { type: 'text', text };
  expect((await ask([part])).prompt).toMatchObject({ tokens_source: 'local', estimated: null });
  await until('its blocks are known', () => (on.core.index?.stats().blocks ?? 0) >= 12);
  expect((await ask([part])).prediction?.cached_tokens).toBeGreaterThan(0);
  // The last has an image with a caption, which is no text for the engine.
  for (const content of [[part, IMAGE], [IMAGE, part], [{ ...IMAGE, text }]]) {
    const record = await ask(content);
    expect(record.prompt).toMatchObject({ tokens_source: 'estimate', estimated: 'content', head_hash: null });
    expect(record.prediction).toBeNull();
    expect(record.candidates[0]).toMatchObject({
      overlap_blocks: { device: 0, host: 0, disk: 0, shared: 0 },
    });
    expect(renderDecision(record)).toContain(
      'tokens (estimate, as it holds more than text, whose tokens only the engine knows: no block is hashed or matched)',
    );
  }
});
