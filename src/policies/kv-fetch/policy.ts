// Tells the booked worker's engine which peer holds leading blocks of the prompt that it lacks.
import { z } from 'zod';
import {
  defineHintPolicy,
  expectedCopyMs,
  type HintPolicyDefinition,
  type WorkerTiming,
} from '../../plugin/index.ts';
import { LinkQueue } from './link-queue.ts';

const positive = z.number().positive().max(1e9);

/** `kv_fetch`: the copy that selection committed, else one `kv.fetch@1.0` where a peer adds enough, and, if asked for, in less time than computing. */
export const kvFetch: HintPolicyDefinition = defineHintPolicy({
  type: 'kv_fetch',
  parameters: z.strictObject({
    min_additional_blocks: z.int().min(1).default(1),
    only_if_faster: z.boolean().default(false),
    measured_link: z.boolean().default(true),
    link_gbps: positive.default(100),
    link_latency_ms: z.number().min(0).max(60_000).default(3),
    kv_bytes_per_token: positive.default(131_072),
  }),
  inputs: ['kv-copy-locations', 'timing'],
  inputsWhen: ({ only_if_faster }) =>
    only_if_faster ? ['kv-copy-locations', 'timing'] : ['kv-copy-locations'],
  actions: ['kv.fetch@1.0'],
  commitments: ['kv-copy'],
  defaultHosts: [{ workerSelection: 'kvcr' }],
  create({ clock, parameters }) {
    const links = new LinkQueue();
    // Bits over bits per ms.
    const tokenMs = (parameters.kv_bytes_per_token * 8) / (parameters.link_gbps * 1e6);
    return {
      buildHints(context) {
        const { blockSize, committedKvCopy, copyLocations, worker } = context;
        const copy = committedKvCopy ?? copyLocations.bestSource(parameters.min_additional_blocks);
        if (copy === null) return [];
        if (parameters.only_if_faster) {
          const statedMs = parameters.link_latency_ms + copy.additionalBlocks * blockSize * tokenMs;
          const copyMs = expectedCopyMs(
            parameters.measured_link ? copy.link : null,
            copy.additionalBlocks,
            statedMs,
          );
          const now = clock.now();
          if (committedKvCopy === null) {
            const held = copyLocations.localPrefixBlocks * blockSize;
            const tokens = copy.additionalBlocks * blockSize;
            const computeMs = computingMs(
              context.timing,
              Math.min(tokens, context.promptTokens - held),
              held,
            );
            if (links.waitMs(copy.source, worker, copyMs, now) >= computeMs) return [];
          }
          links.reserve(copy.source, worker, copyMs, now);
        }
        return [
          {
            type: 'kv.fetch',
            version: '1.0',
            payload: { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes },
          },
        ];
      },
    };
  },
});

/** Time to compute the next tokens after those held; 0 where nobody knows how fast the worker is, as then nothing is known to be faster. */
function computingMs(timing: WorkerTiming | null, tokens: number, held: number): number {
  if (timing === null) return 0;
  return tokens * (timing.prefillTokenMs + timing.prefillAttentionMs * (held + tokens / 2));
}
