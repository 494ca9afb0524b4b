// Requests that name a LoRA adapter as their model.
import { describe, expect, it } from 'vitest';
import { bench, COMPLETION, errorOf, post, REPORT } from '../../tests/gateway-bench.ts';

describe('a LoRA adapter', () => {
  it('stands for the model whose workers hold it, and goes to the engine by its own name', async () => {
    const on = await bench();
    on.adapters = new Map([
      ['law', ['tiny']],
      ['default', ['tiny']],
      ['stray', ['unconfigured']],
    ]);
    on.road.onArrival = ({ sink }) => {
      sink.head(200, {});
      sink.finished(REPORT);
    };
    for (const model of ['law', 'default']) {
      expect((await post(on, { ...COMPLETION, model })).status).toBe(200);
    }
    const [adapter, alias] = on.road.arrivals.map(({ request }) => request);
    expect(adapter).toMatchObject({ partition: { model: 'tiny' }, servedAs: 'law', loraName: 'law' });
    expect(alias).toMatchObject({ partition: { model: 'tiny' }, servedAs: 'tiny-sim', loraName: null });
    for (const model of ['code', 'stray']) {
      expect(await errorOf(post(on, { ...COMPLETION, model }))).toMatchObject({
        status: 404,
        error: { code: 'model_not_found', message: expect.stringContaining(`there is no model "${model}"`) },
      });
    }
    expect(on.road.arrivals).toHaveLength(2);
  });

  it('is listed with its model', async () => {
    const on = await bench();
    on.adapters = new Map([['law', ['tiny']]]);
    const list = (await (await fetch(`${on.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(list.data.map(({ id }) => id)).toEqual(['default', 'law', 'tiny']);
    expect(await (await fetch(`${on.url}/v1/models/law`)).json()).toMatchObject({
      id: 'law',
      parent: 'tiny',
    });
    expect(await (await fetch(`${on.url}/v1/models/tiny`)).json()).not.toHaveProperty('parent');
  });
});
