// The road end to end on a real engine: the official client, the gateway, llama.cpp in this process on a model that the test writes.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningRouter } from '../src/cli/running-router.ts';
import type { DecisionRecord } from '../src/observe/index.ts';
import { client, router, until } from './live-support.ts';
import { tinyGguf, writeTinyGguf } from './support/tiny-gguf.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-gguf-'));
  writeTinyGguf(join(folder, 'tiny.gguf'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function live(...workers: readonly string[]): Promise<{ on: RunningRouter; sdk: OpenAI }> {
  const gguf = join(folder, 'tiny.gguf');
  const lines = workers.map(
    (keys, at) => `  - { id: ${at + 1}, dialect: llamacpp-node, gguf: "${gguf}", ${keys} }`,
  );
  const on = await router(`
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models: { tiny: { block_size: 16 } }
workers:
${lines.join('\n')}
`);
  return { on, sdk: client(on.url) };
}

function newest(on: RunningRouter): DecisionRecord {
  const [record] = on.core.decisions?.list(1, {}) ?? [];
  if (record === undefined) throw new Error('no decision was recorded');
  return record;
}

interface Turn {
  readonly predicted: number | undefined;
  readonly record: number | null | undefined;
  readonly reported: number | undefined;
}

/** A conversation whose next turn sends everything so far. */
class Conversation {
  readonly #messages: { role: 'user' | 'assistant'; content: string }[] = [];
  readonly #topic: string;

  constructor(topic: string) {
    this.#topic = topic;
  }

  async turn({ on, sdk }: { on: RunningRouter; sdk: OpenAI }): Promise<Turn> {
    const content = `turn ${this.#messages.length} on ${this.#topic}: what pulls the train, and who is on the track?`;
    this.#messages.push({ role: 'user', content });
    const answer = await sdk.chat.completions.create({
      ...{ model: 'tiny', messages: this.#messages, max_tokens: 20, temperature: 0 },
    });
    this.#messages.push({ role: 'assistant', content: answer.choices[0]?.message.content ?? '' });
    const { prediction, report } = newest(on);
    return {
      predicted: prediction?.cached_tokens,
      record: report?.cached_tokens,
      reported: answer.usage?.prompt_tokens_details?.cached_tokens,
    };
  }
}

describe('the model that tests write', () => {
  it('has the same bytes on every machine', () => {
    const bytes = tinyGguf();
    expect(bytes.length).toBe(489_024);
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(
      'd3ee4f3ad34119f1936efb5db79945a71c393dc8dd0208a15ae7e4d79ceb5560',
    );
  });
});

describe('what is reported as cached is what the index predicted', () => {
  it('in a session of six turns', async () => {
    const door = await live('sequences: 4, context_tokens: 8192');
    const session = new Conversation('goods');
    let before = 0;
    for (let at = 0; at < 6; at += 1) {
      const { predicted, record, reported } = await session.turn(door);
      expect([reported, record]).toEqual([predicted, predicted]);
      // The first turn finds nothing, each later one more than the one before it.
      if (at === 0) expect(predicted).toBe(0);
      else expect(predicted).toBeGreaterThan(before);
      before = predicted ?? 0;
    }
    expect(door.on.readiness()).toEqual({ reasons: [], warnings: [] });
  });

  it('with memory for half of the sessions, of which each turn drives another out', async () => {
    const door = await live('sequences: 3, context_tokens: 3072');
    const sessions = Array.from({ length: 6 }, (_, at) => new Conversation(`topic ${at}`));
    let lost = 0;
    let kept = 0;
    for (let turn = 0; turn < 4; turn += 1) {
      // Forth and back: the sessions that were served last come first.
      const order = turn % 2 === 0 ? sessions : [...sessions].reverse();
      for (const session of order) {
        const { predicted, reported } = await session.turn(door);
        expect(reported).toBe(predicted);
        if (turn > 0 && (predicted ?? 0) >= 48) kept += 1;
        else if (turn > 0) lost += 1;
      }
    }
    // Else nothing was driven out, or nothing was left.
    expect([lost > 3, kept > 3]).toEqual([true, true]);
  });

  it('over two workers, each of which keeps its own sessions', async () => {
    const door = await live('sequences: 2, context_tokens: 4096', 'sequences: 2, context_tokens: 4096');
    const sessions = [new Conversation('points'), new Conversation('town')];
    for (let turn = 0; turn < 3; turn += 1) {
      for (const session of sessions) {
        const { predicted, reported } = await session.turn(door);
        expect(reported).toBe(predicted);
      }
    }
  });
});

describe('four requests at the same time', () => {
  it('are streamed beside each other, and leave the loop to others', async () => {
    const { on, sdk } = await live('sequences: 4, context_tokens: 8192');
    let turns = 0;
    const turning = setInterval(() => {
      turns += 1;
    }, 1);
    const texts = await Promise.all(
      [1, 2, 3, 4].map(async (topic) => {
        const stream = await sdk.completions.create({
          ...{ model: 'tiny', prompt: `${topic} ${'what is on the track '.repeat(60)}`, max_tokens: 60 },
          ...{ temperature: 0, stream: true as const },
        });
        let text = '';
        for await (const chunk of stream) text += chunk.choices[0]?.text ?? '';
        return text;
      }),
    );
    clearInterval(turning);
    expect(texts.every((text) => text.length > 0)).toBe(true);
    // It turned again and again while they were computed.
    expect(turns).toBeGreaterThan(20);
    expect(on.core.road.activeBookings()).toBe(0);
  });

  it('end at once when their client leaves', async () => {
    const { on, sdk } = await live('sequences: 1, context_tokens: 8192');
    const leaving = new AbortController();
    const stream = await sdk.completions.create(
      {
        ...{ model: 'tiny', prompt: 'the train', max_tokens: 7000, temperature: 0, stream: true as const },
        ...{ ignore_eos: true },
      },
      { signal: leaving.signal },
    );
    let chunks = 0;
    try {
      for await (const _chunk of stream) {
        chunks += 1;
        if (chunks === 5) leaving.abort();
      }
    } catch (thrown) {
      if (!leaving.signal.aborted) throw thrown;
    }
    await until('the booking is released', () => on.core.road.activeBookings() === 0);
    const answer = await sdk.completions.create({ model: 'tiny', prompt: 'a town', max_tokens: 3 });
    expect(answer.usage?.completion_tokens).toBeLessThanOrEqual(3);
  });
});

describe('the documented files', () => {
  it.each([
    ['README.md', 'No server at all'],
    ['docs/engines/llamacpp.md', '## In this process'],
  ])('of %s serve', async (page, heading) => {
    const text = readFileSync(page, 'utf8');
    const [, block = ''] = /```yaml\n([\s\S]*?)```/.exec(text.slice(text.indexOf(heading))) ?? [];
    const listen = 'listen: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\n';
    const on = await router(block.replace('./model.gguf', join(folder, 'tiny.gguf')) + listen);
    const messages = [{ role: 'user' as const, content: 'what is on the track' }];
    const answer = await client(on.url).chat.completions.create({
      model: 'my-model',
      messages,
      max_tokens: 4,
    });
    expect(answer.usage?.completion_tokens).toBeGreaterThan(0);
  });
});

describe('a start that cannot be', () => {
  it('names the worker and the file', async () => {
    const missing = join(folder, 'none.gguf');
    const yaml = `models: { tiny: {} }\nworkers:\n  - { dialect: llamacpp-node, gguf: "${missing}" }\n`;
    await expect(router(yaml)).rejects.toThrow(`workers[0].gguf: ${missing} does not exist`);
  });
});
