// Prompts of next turns computed ahead, between a client and engines on real sockets.
import { expect, it } from 'vitest';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';

interface Decision {
  readonly request_id: string;
  readonly door: string;
  readonly prompt: { readonly tokens: number };
  readonly chosen: { readonly worker_id: number };
  readonly report: { readonly prompt_tokens: number; readonly cached_tokens: number } | null;
}

it('the next turn of an agent that asked for it finds its history and the answer cached', async () => {
  const { engines: list } = await engines(2, '--speed', '100');
  const urls = list.map(({ url }) => url);
  const on = await router(routerYaml(urls, 'router: { trust_routing_fields_from: [127.0.0.1/32] }'));
  const counted = async (outcome: string): Promise<number> => {
    const text = await on.metrics.text();
    const found = new RegExp(`speculative_prefills_total\\{[^}]*outcome="${outcome}"[^}]*\\} (\\d+)`).exec(
      text,
    );
    return Number(found?.[1] ?? 0);
  };
  const decisions = async (door: string): Promise<Decision[]> => {
    const all = (await (await fetch(`${on.adminUrl}/decisions`)).json()) as Decision[];
    return all.filter((decision) => decision.door === door);
  };
  const sdk = client(on.url);
  const messages: { role: 'user' | 'assistant'; content: string }[] = [
    { role: 'user', content: words(300, 7) },
  ];
  const turn = async (speculative_prefill: boolean): Promise<void> => {
    const body = {
      model: 'tiny',
      max_tokens: 64,
      stream: true as const,
      messages,
      nvext: { agent_hints: { speculative_prefill } },
    };
    const headers = { 'x-dynamo-session-id': 'agent' };
    const stream = await sdk.chat.completions.create(body, { headers });
    let answer = '';
    for await (const chunk of stream) answer += chunk.choices[0]?.delta?.content ?? '';
    expect(answer).not.toBe('');
    messages.push({ role: 'assistant', content: answer }, { role: 'user', content: 'Go on' });
  };

  await turn(true);
  let completed = 0;
  while (completed === 0) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    completed = await counted('completed');
  }
  expect([await counted('sent'), await counted('refused')]).toEqual([1, 0]);
  await until('the booking is freed', () => on.core.scheduler.loads.activeBookings === 0);
  const [ahead] = await decisions('speculative');
  expect(ahead?.report?.prompt_tokens).toBe(ahead?.prompt.tokens);
  // The answer is text again, so its tokens may be others than those that were generated.
  expect(ahead?.report?.cached_tokens).toBeGreaterThan(250);

  await turn(false);
  const turns = (await decisions('gateway')).sort((a, b) => a.prompt.tokens - b.prompt.tokens);
  const blocks = Math.floor((ahead?.prompt.tokens ?? 0) / 16);
  expect(turns[1]?.report?.cached_tokens).toBe(blocks * 16);
  expect(turns[1]?.chosen).toEqual(ahead?.chosen);
  expect(await decisions('speculative')).toHaveLength(1);
  await until('the booking is freed', () => on.core.scheduler.loads.activeBookings === 0);
});
