// What the double says of itself: `/server_info`, `/v1/loads` and `/metrics`, in the members that SGLang's own answers have.

import type { ServerResponse } from 'node:http';
import type { SocketPlace } from '../../wire/event-publisher.ts';
import type { DoubleRank } from '../double-rank.ts';
import { answerText } from '../double-server.ts';
import type { SglangDoubleOptions } from './sglang-double.ts';

/** Where a rank binds: port plus rank; 0 = any free port, for rank 0 alone. */
export function eventPlace(base: number, rank: number): SocketPlace {
  return { address: `tcp://127.0.0.1:${base === 0 ? '*' : base + rank}`, connects: false };
}

/** The answer of `/server_info`: the server's arguments, and the size of its cache. */
export function serverInfo(options: SglangDoubleOptions, ranks: readonly DoubleRank[]): object {
  const { faults = {}, settings } = options;
  const pageSize = faults.announcedBlockSize ?? settings.blockSize;
  const tokens = settings.kvBlocks === null ? null : settings.kvBlocks * settings.blockSize;
  return {
    model_path: settings.model,
    served_model_name: settings.model,
    page_size: pageSize,
    dp_size: ranks.length,
    tp_size: 1,
    context_length: options.contextLength ?? null,
    chunked_prefill_size: settings.maxNumBatchedTokens,
    max_prefill_tokens: 16_384,
    disable_radix_cache: faults.prefixCachingOff === true,
    schedule_policy: 'fcfs',
    enable_priority_scheduling: options.priorities ?? false,
    abort_on_priority_when_disabled: options.refusesPriorities ?? false,
    schedule_low_priority_values_first: false,
    incremental_streaming_output: options.incremental ?? false,
    enable_cache_report: options.reportsCache ?? false,
    kv_events_config: eventsConfig(options, ranks),
    disaggregation_mode: settings.role === 'aggregated' ? 'null' : settings.role,
    max_total_num_tokens: tokens,
    max_req_input_len: (options.contextLength ?? 131_072) - 1,
    internal_states: ranks.map(({ driver }) => {
      const { running, waiting } = driver.stats();
      return { num_running_reqs: running, num_waiting_reqs: waiting };
    }),
    version: '0.5.17',
  };
}

/** The setting as it was given on the command line; null = none. */
function eventsConfig(options: SglangDoubleOptions, [first]: readonly DoubleRank[]): string | null {
  const events = first?.events ?? null;
  if (events === null) return null;
  return JSON.stringify({
    publisher: 'zmq',
    endpoint: starred(events.endpoint),
    ...(events.replayEndpoint === null ? {} : { replay_endpoint: starred(events.replayEndpoint) }),
    topic: options.events?.topic ?? '',
  });
}

/** Operators write `*` for the host, and a router has to know which machine that is. */
function starred(endpoint: string): string {
  return endpoint.replace(/^tcp:\/\/[^:]+:/, 'tcp://*:');
}

/** The answer of `/v1/loads`. */
export function loadsOf({ settings }: SglangDoubleOptions, ranks: readonly DoubleRank[]): object {
  return {
    timestamp: 0,
    dp_rank_count: ranks.length,
    loads: ranks.map(({ driver }, rank) => {
      const { activeBlocks, inactiveBlocks, running, totalBlocks, waiting } = driver.stats();
      const used = (activeBlocks + inactiveBlocks) * settings.blockSize;
      return {
        dp_rank: rank,
        num_running_reqs: running,
        num_waiting_reqs: waiting,
        num_total_reqs: running + waiting,
        num_used_tokens: activeBlocks * settings.blockSize,
        max_total_num_tokens: totalBlocks === null ? 0 : totalBlocks * settings.blockSize,
        token_usage: totalBlocks === null ? 0 : used / (totalBlocks * settings.blockSize),
        max_running_requests: settings.maxNumSeqs,
      };
    }),
  };
}

/** Answers with the gauges of load among those of `--enable-metrics`, one sample a rank. */
export function answerMetrics(
  response: ServerResponse,
  { settings }: SglangDoubleOptions,
  ranks: readonly DoubleRank[],
): void {
  const lines: string[] = [];
  const gauge = (name: string, help: string, read: (rank: DoubleRank) => number): void => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} gauge`);
    ranks.forEach((rank, at) => {
      const labels = `engine_type="unified",model_name="${settings.model}",pp_rank="0",tp_rank="0",dp_rank="${at}"`;
      lines.push(`${name}{${labels}} ${read(rank)}`);
    });
  };
  gauge('sglang:num_running_reqs', 'The number of running requests.', ({ driver }) => driver.stats().running);
  gauge(
    'sglang:num_queue_reqs',
    'The number of requests in the waiting queue.',
    ({ driver }) => driver.stats().waiting,
  );
  gauge('sglang:token_usage', 'The token usage.', ({ driver }) => {
    const { activeBlocks, totalBlocks } = driver.stats();
    return totalBlocks === null ? 0 : activeBlocks / totalBlocks;
  });
  answerText(response, 200, 'text/plain; version=0.0.4; charset=utf-8', `${lines.join('\n')}\n`);
}
