// Starts doubles of vLLM for tests, from the arguments of `vllm serve`, and reads what they answer.
import { createBlockHasher } from '../../kv/index.ts';
import { realClock } from '../wire/wire.fixtures.ts';
import { startVllmDouble, type VllmDouble, type VllmDoubleOptions } from './vllm-double.ts';
import { readVllmServe } from './vllm-serve.ts';

const running: VllmDouble[] = [];

/** Any free ports for a publisher and its replay. */
export const EVENTS =
  '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0","topic":"kv"}';

/** A double that `stopDoubles` ends. */
export async function vllm(
  args: readonly string[] = [],
  more: Partial<Omit<VllmDoubleOptions, 'serve' | 'hasher' | 'clock'>> = {},
): Promise<VllmDouble> {
  const double = await startVllmDouble({
    serve: readVllmServe(['--port', '0', '--block-size', '4', ...args]),
    hasher: createBlockHasher(),
    clock: realClock,
    speedup: 1000,
    ...more,
  });
  running.push(double);
  return double;
}

/** Ends the doubles that were started. */
export async function stopDoubles(): Promise<void> {
  await Promise.all(running.splice(0).map((double) => double.close(0)));
}

/** What a POST with a JSON body answers. */
export async function ask(
  { url }: Pick<VllmDouble, 'url'>,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string; json: () => unknown }> {
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, text, json: (): unknown => JSON.parse(text) };
}
