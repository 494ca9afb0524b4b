import { describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { pickWorker } from '../plugin/index.ts';
import { startEmbeddedRouter } from './embedded-router.ts';

const yaml = (entry: string) => `listen: { port: 0 }
admin: { port: 0 }
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
worker_selection: { aggregated: ${entry} }
`;

describe('a program that embeds a router', () => {
  it('registers policies of its own, which the configuration uses by their types', async () => {
    const router = await startEmbeddedRouter(
      parseConfig(yaml('{ type: ours, parameters: { n: 1 }, hints: [{ type: ours-too }] }'), 'router.yaml'),
      {
        register(registry) {
          registry.registerWorkerSelection('ours', () => ({
            create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
          }));
          registry.registerHintPolicy('ours-too', () => ({ create: () => ({ buildHints: () => [] }) }));
        },
      },
    );
    try {
      const plugins = await (await fetch(`${router.adminUrl}/plugins`)).json();
      const { roles } = plugins as { roles: unknown };
      expect(roles).toMatchObject([
        { policy: { type: 'ours', version: 'embedded' }, hints: [{ type: 'ours-too', listed: true }] },
        {},
        {},
        {},
      ]);
    } finally {
      await router.stop(0);
    }
  });

  it('is told what is wrong with a registration, and nothing runs', async () => {
    const start = startEmbeddedRouter(parseConfig(yaml('default'), 'router.yaml'), {
      register: (registry) =>
        registry.registerHintPolicy('random', () => ({ create: () => ({ buildHints: () => [] }) })),
    });
    await expect(start).rejects.toThrow(
      'the policy type random is registered by the built-in policies and by the embedding program; types must be unique, rename one of them',
    );
  });
});
