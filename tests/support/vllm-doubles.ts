// Starts doubles of vLLM for tests, from the arguments of `vllm serve`, and reads what they answer.
import { systemClock } from '../../src/cli/system-clock.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import {
  readVllmServe,
  startVllmDouble,
  type VllmDouble,
  type VllmDoubleOptions,
} from '../../src/simulator/index.ts';

const running: VllmDouble[] = [];

/** Any free ports for a publisher and its replay. */
export const EVENTS =
  '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0","topic":"kv"}';

type More = Partial<Omit<VllmDoubleOptions, 'serve' | 'hasher' | 'clock'>>;

/** A double with blocks of 4 tokens on any free port, that `stopDoubles` ends. */
export function vllm(args: readonly string[] = [], more: More = {}): Promise<VllmDouble> {
  return vllmOf(['--port', '0', '--block-size', '4', ...args], more);
}

/** A double by its arguments alone, that `stopDoubles` ends. */
export async function vllmOf(args: readonly string[], more: More = {}): Promise<VllmDouble> {
  const double = await startVllmDouble({
    serve: readVllmServe(args),
    hasher: createBlockHasher(),
    clock: systemClock(),
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
