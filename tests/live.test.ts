// The road end to end: the official OpenAI client, the gateway, tokenizer threads, simulated engines in another process.
import type OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { RunningRouter } from '../src/cli/running-router.ts';
import type { DecisionRecord } from '../src/observe/index.ts';
import { seededRng } from '../src/plugin/index.ts';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';

async function live(
  count: number,
  extra = '',
  ...args: string[]
): Promise<{ on: RunningRouter; sdk: OpenAI }> {
  const { engines: list } = await engines(count, '--speed', '20', ...args);
  const on = await router(
    routerYaml(
      list.map(({ url }) => url),
      extra,
    ),
  );
  return { on, sdk: client(on.url) };
}

function newest(on: RunningRouter): DecisionRecord {
  const [record] = on.core.decisions?.list(1, {}) ?? [];
  if (record === undefined) throw new Error('no decision was recorded');
  return record;
}

/** Until the index knows every block that finished requests stored. */
async function eventsOf(on: RunningRouter, atLeast: number): Promise<void> {
  await until(`${atLeast} blocks are indexed`, () => (on.core.index?.stats().holdings ?? 0) >= atLeast);
}

const CHAT = { model: 'tiny', max_tokens: 8, messages: [{ role: 'user' as const, content: 'Hello' }] };

describe('the OpenAI client', () => {
  it('chats and completes, streaming and not', async () => {
    const { on, sdk } = await live(2);
    const chat = await sdk.chat.completions.create(CHAT);
    expect(chat.choices[0]?.finish_reason).toBe('length');
    expect(chat.usage?.completion_tokens).toBe(8);
    const completion = await sdk.completions.create({ model: 'tiny', prompt: 'Hello', max_tokens: 5 });
    expect(completion.usage?.completion_tokens).toBe(5);

    let chatText = '';
    let chunks = 0;
    for await (const chunk of await sdk.chat.completions.create({ ...CHAT, stream: true })) {
      chunks += 1;
      expect(chunk.choices.length).toBe(1);
      chatText += chunk.choices[0]?.delta.content ?? '';
    }
    // One chunk with the role, then one per token; the router's own usage chunk stays inside.
    expect(chunks).toBe(9);
    expect(chatText.trim().split(' ').length).toBe(8);

    let text = '';
    for await (const chunk of await sdk.completions.create({
      model: 'tiny',
      prompt: 'Hello',
      max_tokens: 5,
      stream: true,
    })) {
      text += chunk.choices[0]?.text ?? '';
    }
    expect(text.trim().split(' ').length).toBe(5);
    expect(on.core.road.activeBookings()).toBe(0);
    expect(newest(on).report).toMatchObject({ output_tokens: 5, source: 'usage' });
    // Only a stream shows when its first token was out.
    const records = on.core.decisions?.list(4, {}) ?? [];
    expect(records.map(({ outcome }) => outcome?.ttft_ms !== null)).toEqual([true, true, false, false]);
    expect(await on.metrics.text()).toContain(
      'pointsman_time_to_first_token_seconds_count{model="tiny"} 2\n',
    );
  });

  it('gets the usage of a stream when it asks for it', async () => {
    const { sdk } = await live(1);
    const seen: unknown[] = [];
    const options = { ...CHAT, stream: true as const, stream_options: { include_usage: true } };
    for await (const chunk of await sdk.chat.completions.create(options))
      if (chunk.usage) seen.push(chunk.usage);
    expect(seen).toEqual([expect.objectContaining({ completion_tokens: 8 })]);
  });

  it('gets errors it understands: a wrong field, an unknown model, a prompt over the cap', async () => {
    const { sdk } = await live(1, 'limits: { prompt_tokens: 64 }');
    await expect(sdk.chat.completions.create({ ...CHAT, n: 2 })).rejects.toMatchObject({
      status: 400,
      param: 'n',
      code: 'PM_REQUEST_INVALID',
    });
    await expect(sdk.chat.completions.create({ ...CHAT, model: 'none' })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    await expect(sdk.completions.create({ model: 'tiny', prompt: words(65, 1) })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    });
    expect((await sdk.models.list()).data.map(({ id }) => id)).toEqual(['tiny']);
  });
});

describe('routing', () => {
  it('sends repeated prompts where they are cached, and predicts what the engine reports', async () => {
    const { on, sdk } = await live(4);
    const send = async (prompt: string): Promise<DecisionRecord> => {
      await sdk.completions.create({ model: 'tiny', prompt, max_tokens: 4 });
      return newest(on);
    };
    const first = new Map<number, bigint>();
    let blocks = 0;
    for (let seed = 0; seed < 8; seed += 1) {
      const record = await send(words(200, seed));
      expect(record.report).toMatchObject({ prompt_tokens: 200, cached_tokens: 0 });
      first.set(seed, record.pick.worker_id);
      // 204 tokens, of which the last is never computed: 12 whole blocks.
      blocks += 12;
      await eventsOf(on, blocks);
    }
    for (let seed = 0; seed < 8; seed += 1) {
      const record = await send(words(200, seed));
      expect(record.pick.worker_id).toBe(first.get(seed));
      expect(record.prediction?.cached_tokens).toBe(192);
      expect(record.report?.cached_tokens).toBe(192);
    }
    expect(new Set(first.values()).size).toBeGreaterThan(1);
  });

  it('predicts every turn of a growing chat exactly: text, ids and events agree', async () => {
    const { on, sdk } = await live(3);
    const messages: { role: 'user' | 'assistant'; content: string }[] = [];
    for (let turn = 0; turn < 6; turn += 1) {
      messages.push({ role: 'user', content: words(40, turn) });
      const headers = { 'x-dynamo-session-id': 'chat-1' };
      const answer = await sdk.chat.completions.create(
        { model: 'tiny', max_tokens: 24, messages },
        { headers },
      );
      messages.push({ role: 'assistant', content: answer.choices[0]?.message.content ?? '' });
      const { prompt, prediction, report } = newest(on);
      expect(prompt.tokens_source).toBe('local');
      expect(report?.prompt_tokens).toBe(prompt.tokens);
      expect(report?.cached_tokens).toBe(prediction?.cached_tokens);
      if (turn > 0) expect(report?.cached_tokens).toBeGreaterThan(0);
      // Full blocks of what the engine computed: prompt and all but the last output token.
      await eventsOf(on, Math.floor((prompt.tokens + 23) / 16));
    }
  });
});

describe('a worker whose dialect is not named', () => {
  it('is served when its engine says what it is', async () => {
    const { engines: list } = await engines(1, '--speed', '20');
    const yaml = routerYaml([list[0]?.url ?? '']).replace(', dialect: sim', '');
    const on = await router(yaml);
    expect(on.readiness()).toEqual({ reasons: [], warnings: [] });
    const answer = await client(on.url).chat.completions.create(CHAT);
    expect(answer.usage?.completion_tokens).toBe(8);
  });
});

describe('clients that leave', () => {
  it('an aborted stream leaves no booking and stops the engine', async () => {
    const { on, sdk } = await live(1);
    const stream = await sdk.chat.completions.create({ ...CHAT, max_tokens: 100_000, stream: true });
    for await (const _ of stream) {
      expect(on.core.road.activeBookings()).toBe(1);
      break;
    }
    await until('the booking is freed', () => on.core.road.activeBookings() === 0);
    expect(newest(on).booking.released).toBe('aborted');
    expect(on.gateway.activeRequests()).toBe(0);
  });

  it('a hundred concurrent streams with aborts at random moments leave none', async () => {
    const { on, sdk } = await live(4);
    const rng = seededRng(7);
    const ends = { aborted: 0, complete: 0 };
    const one = async (index: number): Promise<void> => {
      const leaveAfter = rng.integer(3) === 0 ? Number.POSITIVE_INFINITY : rng.integer(20);
      const controller = new AbortController();
      if (leaveAfter === 0) setImmediate(() => controller.abort());
      try {
        const stream = await sdk.completions.create(
          { model: 'tiny', prompt: words(20 + rng.integer(200), index % 10), max_tokens: 30, stream: true },
          { signal: controller.signal },
        );
        let seen = 0;
        for await (const _ of stream) {
          seen += 1;
          if (seen < leaveAfter) continue;
          controller.abort();
          // What had already arrived may still be read; Node's fetch can leave such a reader waiting.
          break;
        }
        ends[controller.signal.aborted ? 'aborted' : 'complete'] += 1;
      } catch (thrown) {
        if (!controller.signal.aborted) throw thrown;
        ends.aborted += 1;
      }
    };
    await Promise.all(Array.from({ length: 100 }, (_, index) => one(index)));
    await until('every booking is freed', () => on.core.road.activeBookings() === 0);
    await until('every request is answered', () => on.gateway.activeRequests() === 0);
    expect(ends.aborted + ends.complete).toBe(100);
    expect(ends.aborted).toBeGreaterThan(20);
    expect(ends.complete).toBeGreaterThan(10);
    const text = await on.metrics.text();
    expect(text).toMatch(/^pointsman_bookings_active 0$/m);
  });
});

describe('hints of a trusted caller', () => {
  it('reach the engine, which says what it made of them; those of others do not', async () => {
    const hint = {
      protocol_version: '0.1',
      message_id: 'from-outside',
      actions: [{ action_id: 'x', action_type: 'kv.unheard-of', action_version: '1.0', payload: {} }],
    };
    const body = JSON.stringify({ model: 'tiny', prompt: words(40, 1), max_tokens: 2, kv_hints: hint });
    for (const [networks, sent] of [
      ['["127.0.0.0/8"]', [{ action_id: 'a1', type: 'kv.unheard-of@1.0', outcome: 'rejected' }]],
      ['["10.0.0.0/8"]', []],
    ] as const) {
      const { on } = await live(1, `router: { trust_incoming_hints_from: ${networks} }`, '--no-action-set');
      expect((await fetch(`${on.url}/v1/completions`, { method: 'POST', body })).status).toBe(200);
      expect(newest(on).hints?.sent ?? []).toMatchObject(sent);
      const stripped = await on.metrics.text();
      expect(stripped.includes('pointsman_stripped_fields_total{field="kv_hints"} 1')).toBe(
        sent.length === 0,
      );
    }
  });
});
