// The simulated engine's /metrics, under the names vLLM uses, so that a scraper made for vLLM reads it.
import { Counter, Gauge, Registry } from 'prom-client';
import type { SimulatedEngineSettings, SimulatedEngineStats, SimulatedHintOutcome } from '../types.ts';

/** Counts of one engine. */
export interface EngineMetrics {
  /** A request was admitted: prefix cache queries and hits, both in tokens. */
  admitted(promptTokens: number, cachedTokens: number, outcomes: readonly SimulatedHintOutcome[]): void;
  generated(tokens: number): void;
  finished(): void;
  /** A peer asked for blocks; `answer` is `reserved` or the refusal's code. */
  fetchAsked(answer: string): void;
  /** Prometheus text. */
  render(): Promise<string>;
  readonly contentType: string;
}

/** Metrics of an engine; gauges are read from `stats` at each scrape. */
export function createEngineMetrics(
  settings: SimulatedEngineSettings,
  stats: () => SimulatedEngineStats,
): EngineMetrics {
  const registry = new Registry();
  const labels = { model_name: settings.model };
  const counter = (name: string, help: string): Counter<'model_name'> => {
    const made = new Counter({ name, help, labelNames: ['model_name'], registers: [registry] });
    made.inc(labels, 0);
    return made;
  };
  const gauge = (name: string, help: string, read: (now: SimulatedEngineStats) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['model_name'],
      registers: [registry],
      collect() {
        this.set(labels, read(stats()));
      },
    });
  };
  gauge('vllm:num_requests_running', 'Requests in the running batch.', (now) => now.running);
  gauge('vllm:num_requests_waiting', 'Requests waiting, those that wait for KV included.', (now) => {
    return now.waiting + now.parked;
  });
  gauge('vllm:kv_cache_usage_perc', 'Share of KV blocks held by requests, 0 to 1.', (now) => {
    return now.totalBlocks === null ? 0 : now.activeBlocks / now.totalBlocks;
  });
  gauge('pointsman_sim_handoffs', 'Prefills computed for another engine, or waiting for it.', (now) => {
    return now.handoffs;
  });
  gauge('pointsman_sim_host_blocks', 'KV blocks in host memory.', (now) => now.hostBlocks);
  gauge(
    'pointsman_sim_host_offloaded_blocks',
    'KV blocks copied from the device to host memory since the start.',
    (now) => now.offloadedBlocks,
  );
  gauge(
    'pointsman_sim_host_onboarded_blocks',
    'KV blocks copied back from host memory for requests since the start.',
    (now) => now.onboardedBlocks,
  );
  gauge('pointsman_sim_retained_blocks', 'KV blocks that hints retain.', (now) => now.retainedBlocks);
  gauge(
    'pointsman_sim_evicted_blocks',
    'KV blocks evicted from the device to make room since the start.',
    (now) => now.evictedForRoom,
  );
  gauge(
    'pointsman_sim_hint_evicted_blocks',
    'KV blocks evicted from the device because a hint asked for it since the start.',
    (now) => now.evictedByHint,
  );
  const queries = counter('vllm:prefix_cache_queries_total', 'Prompt tokens looked up in the prefix cache.');
  const hits = counter('vllm:prefix_cache_hits_total', 'Prompt tokens found in the prefix cache.');
  const prompts = counter('vllm:prompt_tokens_total', 'Prompt tokens of admitted requests.');
  const outputs = counter('vllm:generation_tokens_total', 'Output tokens generated.');
  const successes = counter('vllm:request_success_total', 'Requests finished.');
  const hints = new Counter({
    name: 'pointsman_sim_hint_outcomes_total',
    help: 'Outcomes of hint actions at admission.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  const fetches = new Counter({
    name: 'pointsman_sim_fetch_requests_total',
    help: 'Reservations peers asked this engine for, by answer.',
    labelNames: ['answer'],
    registers: [registry],
  });
  new Gauge({
    name: 'vllm:cache_config_info',
    help: 'KV cache configuration, in labels.',
    labelNames: ['block_size', 'num_gpu_blocks'],
    registers: [registry],
  }).set({ block_size: String(settings.blockSize), num_gpu_blocks: String(settings.kvBlocks ?? 'None') }, 1);
  return {
    admitted(promptTokens, cachedTokens, outcomes) {
      queries.inc(labels, promptTokens);
      hits.inc(labels, cachedTokens);
      prompts.inc(labels, promptTokens);
      for (const { outcome } of outcomes) hints.inc({ outcome });
    },
    generated: (tokens) => outputs.inc(labels, tokens),
    finished: () => successes.inc(labels),
    fetchAsked: (answer) => fetches.inc({ answer }),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
