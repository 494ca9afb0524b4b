// What an engine says of its own load, in the Prometheus text that engines publish at /metrics.

/** Load by the engine's own account, over all its ranks. Null members are not reported. */
export interface ReportedLoad {
  /** Requests in the running batch. */
  readonly running: number | null;
  /** Requests that wait. */
  readonly waiting: number | null;
  /** Share of the KV cache in use, 0 to 1; the fullest rank's. */
  readonly kvUsage: number | null;
}

/** Names by what they say; those of vLLM, which the simulated engine publishes too, then SGLang's and llama.cpp's. */
const RUNNING = ['vllm:num_requests_running', 'sglang:num_running_reqs', 'llamacpp:requests_processing'];
const WAITING = ['vllm:num_requests_waiting', 'sglang:num_queue_reqs', 'llamacpp:requests_deferred'];
const KV_USAGE = [
  'vllm:kv_cache_usage_perc',
  'vllm:gpu_cache_usage_perc',
  'sglang:token_usage',
  'llamacpp:kv_cache_usage_ratio',
];

/** A sample without its time stamp: name, labels, value. */
const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{.*\})?[ \t]+(\S+)/;

/** Reads a page of metrics; null = it says nothing of load. */
export function readReportedLoad(text: string): ReportedLoad | null {
  const values = new Map<string, number[]>();
  for (const line of text.split('\n')) {
    const [, name, written] = SAMPLE.exec(line) ?? [];
    if (name === undefined) continue;
    const value = Number(written);
    if (!Number.isFinite(value) || value < 0) continue;
    const others = values.get(name);
    if (others === undefined) values.set(name, [value]);
    else others.push(value);
  }
  const ofFirst = (names: readonly string[]): readonly number[] | null => {
    for (const name of names) {
      const found = values.get(name);
      if (found !== undefined) return found;
    }
    return null;
  };
  const sum = (found: readonly number[] | null) => found?.reduce((total, value) => total + value, 0) ?? null;
  const usage = ofFirst(KV_USAGE);
  const load = {
    running: sum(ofFirst(RUNNING)),
    waiting: sum(ofFirst(WAITING)),
    kvUsage: usage === null ? null : Math.max(...usage),
  };
  return load.running === null && load.waiting === null && load.kvUsage === null ? null : load;
}
