// docs/selection-service.md against the service: its calls are sent as they stand there, and its answers are what comes back.
import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { parseExactJson } from '../src/config/index.ts';
import { until } from './live-support.ts';
import { ask, type LocalService, localService } from './support/selection-client.ts';

const page = readFileSync(new URL('../docs/selection-service.md', import.meta.url), 'utf8');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, text]) => text ?? '');
const answers = blocks('json').map((text): unknown => parseExactJson(text));

const running: LocalService[] = [];
afterEach(async () => {
  for (const { service } of running.splice(0)) await service.stop();
});

/** Method, path and body of each `curl` line. */
function calls(): { readonly method: string; readonly path: string; readonly body: string | undefined }[] {
  return (blocks('sh')[0] ?? '').split('\n').flatMap((line) => {
    const [, options, path] = /^curl (.*)http:\/\/127\.0\.0\.1:8092(\S+)$/.exec(line) ?? [];
    if (options === undefined || path === undefined) return [];
    const body = /-d '(.*)'/.exec(options)?.[1];
    return [{ method: /-X (\w+)/.exec(options)?.[1] ?? 'POST', path, body }];
  });
}

test('the calls of the page succeed in their order, and the booked choice is the one it shows', async () => {
  const local = await localService();
  running.push(local);
  const heard = [];
  for (const { method, path, body } of calls()) heard.push(await ask(local.client.url, method, path, body));
  expect(heard.map(({ status }) => status)).toEqual([201, 200, 200, 200, 200]);
  expect(heard[1]?.value).toEqual(answers[1]);
});

test('a refusal by load is the one it shows', async () => {
  const local = await localService({
    yaml: `router: { use_kv_events: false }
default_policy_family: usual
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes: [{ name: short, policy_family: usual, cache_bucket: any, quantum: 64, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }]`,
  });
  running.push(local);
  const { client, service } = local;
  await client.worker(1, { max_num_batched_tokens: 100 });
  const prompt = { token_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9] };
  await client.post('/select_and_reserve', { ...prompt, selection_id: 'busy' });
  const waiting = client.post('/select', prompt);
  const partition = { model: 'default', routingGroup: 'default' };
  await until('it waits', () => service.core.road.waitingOf(partition).requests === 1);
  const refused = await client.post('/select', prompt);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  expect(refused.value).toEqual(answers[0]);
  await client.post('/reservations/busy/prefill_complete');
  local.clock.advanceTo(local.clock.now() + 1);
  expect((await waiting).status).toBe(200);
});

test('fields that nobody knows change nothing', async () => {
  const local = await localService();
  running.push(local);
  await local.client.worker(1, { colour: 'blue' });
  const plain = await local.client.post('/select', { token_ids: [1, 2, 3, 4, 5], selection_id: 'a' });
  const odd = await local.client.post('/select', {
    token_ids: [1, 2, 3, 4, 5],
    selection_id: 'b',
    advisroy: true,
  });
  expect(odd).toMatchObject({ status: 200, value: { ...plain.value, selection_id: 'b' } });
});
