// The road end to end on a real engine: the official client, the gateway, llama.cpp in this process on a model that the test writes.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningRouter } from '../src/cli/running-router.ts';
import type { DecisionRecord } from '../src/observe/index.ts';
import { client, router } from './live-support.ts';
import { writeTinyGguf } from './support/tiny-gguf.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-gguf-'));
  writeTinyGguf(join(folder, 'tiny.gguf'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function yaml(worker: string): string {
  return `
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models: { tiny: { block_size: 16 } }
workers:
  - { id: 1, dialect: llamacpp-node, gguf: "${join(folder, 'tiny.gguf')}", ${worker} }
`;
}

function newest(on: RunningRouter): DecisionRecord {
  const [record] = on.core.decisions?.list(1, {}) ?? [];
  if (record === undefined) throw new Error('no decision was recorded');
  return record;
}

describe('a session', () => {
  it('of six turns: what is reported as cached is what the index predicted', async () => {
    const on = await router(yaml('sequences: 4, context_tokens: 8192'));
    const sdk = client(on.url);
    const messages: { role: 'user' | 'assistant'; content: string }[] = [];
    for (let turn = 0; turn < 6; turn += 1) {
      messages.push({ role: 'user', content: `turn ${turn}: what is the train on a track, and the points man? `.repeat(3) });
      const answer = await sdk.chat.completions.create({ model: 'tiny', messages, max_tokens: 24, temperature: 0 });
      messages.push({ role: 'assistant', content: answer.choices[0]?.message.content ?? '' });
      console.log(answer.usage, JSON.stringify(answer.choices[0]?.message.content), newest(on).prediction ?? Object.keys(newest(on)));
    }
  });
});
