// What a real context leaves on the machine it runs on.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeTinyGguf } from '../../tests/support/tiny-gguf.ts';
import { loadNodeLlama } from '../tokens/index.ts';
import { ids } from './engine.fixtures.ts';
import { openLlamaContext } from './llama-context.ts';

const before = process.env.TMPDIR;
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-context-'));
});
afterEach(() => {
  if (before === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = before;
  rmSync(folder, { recursive: true, force: true });
});

describe('a copy of a sequence', () => {
  it('is seen by nobody else on its way, as it holds the prompt, and leaves nothing behind', async () => {
    const gguf = join(folder, 'tiny.gguf');
    writeTinyGguf(gguf);
    const shared = join(folder, 'shared');
    mkdirSync(shared);
    process.env.TMPDIR = shared;
    const llama = await loadNodeLlama();
    const context = await openLlamaContext(llama, gguf, {
      ...{ model: 'tiny', blockSize: 16, sequences: 2, contextTokens: 1024, maxWaiting: 8, batchTokens: 64 },
    });
    const [from, to] = context.sequences;
    if (from === undefined || to === undefined) throw new Error('there are two sequences');
    await from.extend(Uint32Array.from(ids(200, 1)));
    const seen = new Map<string, number>();
    const look = (): void => {
      for (const name of readdirSync(shared)) seen.set(name, statSync(join(shared, name)).mode & 0o777);
    };
    let copied = false;
    const copying = to.copyFrom(from).then(() => {
      copied = true;
    });
    while (!copied) {
      try {
        look();
      } catch {
        // Gone between the two looks.
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    await copying;
    expect(to.length).toBe(200);
    expect([...seen.values()]).toEqual([0o700]);
    expect(readdirSync(shared)).toEqual([]);
    await context.close();
    await llama.dispose();
  });
});
