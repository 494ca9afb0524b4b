// The metrics of vLLM that a router reads, under its names and labels: one sample per rank, which it calls engine.
import type { SimulatedEngineStats } from '../types.ts';
import type { VllmServe } from './vllm-serve.ts';

/** Counts of one rank. */
export interface RankCounts {
  queries: number;
  hits: number;
  promptTokens: number;
  generationTokens: number;
  finished: number;
}

/** Counts of a rank that has done nothing. */
export function noCounts(): RankCounts {
  return { queries: 0, hits: 0, promptTokens: 0, generationTokens: 0, finished: 0 };
}

/** What a page is written from. */
export interface VllmMetricsFacts {
  readonly serve: VllmServe;
  /** Tokens per block as it is announced. */
  readonly blockSize: number;
  readonly prefixCaching: boolean;
  readonly ranks: readonly { readonly stats: SimulatedEngineStats; readonly counts: RankCounts }[];
}

/** The page of `GET /metrics`. */
export function vllmMetrics({ blockSize, prefixCaching, ranks, serve }: VllmMetricsFacts): string {
  const model = label(serve.models[0] ?? '');
  const lines: string[] = [];
  const family = (
    name: string,
    type: 'gauge' | 'counter',
    help: string,
    read: (rank: (typeof ranks)[number]) => number,
    more = '',
  ): void => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    ranks.forEach((rank, engine) => {
      lines.push(`${name}{engine="${engine}",model_name="${model}"${more}} ${read(rank).toFixed(6)}`);
    });
  };
  family('vllm:num_requests_running', 'gauge', 'Requests in the batch.', ({ stats }) => stats.running);
  family('vllm:num_requests_waiting', 'gauge', 'Requests waiting.', ({ stats }) => {
    return stats.waiting + stats.parked;
  });
  family('vllm:kv_cache_usage_perc', 'gauge', 'KV cache in use, 1 = all.', ({ stats }) => {
    return stats.totalBlocks === null ? 0 : stats.activeBlocks / stats.totalBlocks;
  });
  family('vllm:prefix_cache_queries_total', 'counter', 'Tokens looked up.', ({ counts }) => counts.queries);
  family('vllm:prefix_cache_hits_total', 'counter', 'Tokens found.', ({ counts }) => counts.hits);
  family('vllm:prompt_tokens_total', 'counter', 'Prompt tokens.', ({ counts }) => counts.promptTokens);
  family('vllm:generation_tokens_total', 'counter', 'Output tokens.', ({ counts }) => {
    return counts.generationTokens;
  });
  const reason = ',finished_reason="length"';
  family('vllm:request_success_total', 'counter', 'Requests done.', ({ counts }) => counts.finished, reason);
  lines.push('# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig');
  lines.push('# TYPE vllm:cache_config_info gauge');
  ranks.forEach((_, engine) => {
    const labels = [
      `block_size="${blockSize}"`,
      'cache_dtype="auto"',
      `enable_prefix_caching="${prefixCaching ? 'True' : 'False'}"`,
      `engine="${engine}"`,
      'gpu_memory_utilization="0.9"',
      `num_gpu_blocks="${serve.kvBlocks}"`,
      'num_cpu_blocks="None"',
    ];
    lines.push(`vllm:cache_config_info{${labels.join(',')}} 1.0`);
  });
  return `${lines.join('\n')}\n`;
}

function label(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
