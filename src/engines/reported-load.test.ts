import { describe, expect, it } from 'vitest';
import { readReportedLoad } from './reported-load.ts';

describe('the load that an engine reports', () => {
  it('is read from the names of vLLM, summed over its ranks, with the fullest cache', () => {
    const text = `# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {b} c"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2 1700000000
vllm:num_requests_waiting{engine="0"} 7
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 5e-1
vllm:num_requests_running_total 99
`;
    expect(readReportedLoad(text)).toEqual({ running: 5, waiting: 7, kvUsage: 0.5 });
  });

  it('is read from the names of SGLang, and of an older vLLM', () => {
    expect(
      readReportedLoad('sglang:num_running_reqs 4\nsglang:num_queue_reqs 0\nsglang:token_usage 0.1\n'),
    ).toEqual({ running: 4, waiting: 0, kvUsage: 0.1 });
    expect(readReportedLoad('vllm:gpu_cache_usage_perc 0.75')).toEqual({
      running: null,
      waiting: null,
      kvUsage: 0.75,
    });
  });

  it.each([
    '',
    'no metrics\n',
    '<html></html>',
    'process_cpu_seconds_total 3\n',
    'vllm:num_requests_running NaN\n',
    'vllm:num_requests_running -1\n',
    'vllm:num_requests_running +Inf',
  ])('is none where nothing is said of it, or nothing that can be: %j', (text) => {
    expect(readReportedLoad(text)).toBeNull();
  });
});
