// Reads a worker's KV hint advertisement (`GET /kv_hints/capabilities`, docs/simulated-engine.md). Everything named is checked
// strictly; members this version does not know are ignored, so that a newer engine stays usable.
import { z } from 'zod';
import { PointsmanError } from '../plugin/index.ts';
import type { RankCapabilities, WorkerCapabilities, WorkerHandoff } from './types.ts';

/** Hint protocol that this router speaks. */
const PROTOCOL = '0.1';
const MAX_RANKS = 4096;
const MAX_ACTIONS = 256;
const MAX_ADAPTERS = 4096;

/** Configuration files yield bigint for integers; both forms are whole numbers here. */
const count = (min: number) =>
  z.preprocess((value) => (typeof value === 'bigint' ? Number(value) : value), z.int().min(min));
const text = z.string().min(1).max(1024);
const action = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9_.-]+@[0-9]+(\.[0-9]+)*$/, 'must look like kv.fetch@1.0');

const rankSchema = z.object({
  router_hint: z.boolean(),
  actions: z.array(action).max(MAX_ACTIONS).optional(),
  source_control_endpoint: text.nullish(),
  kv_events: text.nullish(),
  kv_events_replay: text.nullish(),
});

const handoffSchema = z.object({
  kind: z.enum(['nixl', 'nixl_push', 'mooncake', 'bootstrap']),
  host: text.nullish(),
  port: z.preprocess(
    (value) => (typeof value === 'bigint' ? Number(value) : value),
    z.int().min(0).max(65_535).nullish(),
  ),
  engine_id: text.nullish(),
  tp_size: count(1).nullish(),
  pp_size: count(1).nullish(),
});

const schema = z.object({
  protocol_versions: z.array(z.string().max(32)).max(32),
  epoch: text,
  model: text,
  worker_type: text,
  handoff: handoffSchema.nullish(),
  block_size: count(1),
  total_kv_blocks: count(0).nullish(),
  max_num_batched_tokens: count(1).nullish(),
  adapters: z.array(text).max(MAX_ADAPTERS).nullish(),
  hash_scheme: text,
  reports_outcomes: z.boolean(),
  ranks: z.record(z.string().regex(/^(0|[1-9][0-9]{0,8})$/, 'must be a rank number'), rankSchema),
});

/**
 * Parses an advertisement.
 * @throws PointsmanError PM_CAPABILITIES_INVALID naming the first member that is wrong.
 */
export function parseCapabilities(json: unknown): WorkerCapabilities {
  const result = schema.safeParse(json);
  if (!result.success) {
    const issue = result.error.issues[0];
    const at = issue?.path.join('.') || 'the document';
    throw invalid(`${at}: ${issue?.message ?? 'is not as expected'}`, at);
  }
  const read = result.data;
  if (!read.protocol_versions.includes(PROTOCOL)) {
    throw invalid(
      `protocol_versions: has [${read.protocol_versions.join(', ')}], but this router speaks ${PROTOCOL}`,
      'protocol_versions',
    );
  }
  const ranks = Object.entries(read.ranks);
  if (ranks.length > MAX_RANKS)
    throw invalid(`ranks: has ${ranks.length}, at most ${MAX_RANKS} are read`, 'ranks');
  return {
    epoch: read.epoch,
    model: read.model,
    workerType: read.worker_type,
    blockSize: read.block_size,
    handoff: handoffOf(read.handoff ?? null),
    hashScheme: read.hash_scheme,
    reportsOutcomes: read.reports_outcomes,
    totalKvBlocks: read.total_kv_blocks ?? null,
    maxNumBatchedTokens: read.max_num_batched_tokens ?? null,
    adapters: read.adapters ?? null,
    ranks: new Map(ranks.map(([rank, said]) => [Number(rank), rankOf(said)])),
  };
}

function handoffOf(said: z.infer<typeof handoffSchema> | null): WorkerHandoff | null {
  if (said === null) return null;
  const { engine_id: engineId, host = null, kind, port = null, pp_size: ppSize, tp_size: tpSize } = said;
  const address = host === null || port === null ? null : { host, port };
  if (kind !== 'nixl' && address === null) {
    throw invalid(`handoff: kind ${kind} takes host and port`, 'handoff');
  }
  return { kind, address, engineId: engineId ?? null, tpSize: tpSize ?? 1, ppSize: ppSize ?? 1 };
}

function rankOf(said: z.infer<typeof rankSchema>): RankCapabilities {
  const address = said.kv_events ?? null;
  return {
    routerHint: said.router_hint,
    actions: said.actions === undefined ? null : new Set(said.actions),
    sourceControlEndpoint: said.source_control_endpoint ?? null,
    kvEvents:
      address === null ? null : { address, binds: false, replay: said.kv_events_replay ?? null, topic: '' },
  };
}

function invalid(problem: string, at: string): PointsmanError {
  return new PointsmanError(
    'PM_CAPABILITIES_INVALID',
    `the capability advertisement cannot be used: ${problem}`,
    { details: { at } },
  );
}

/** Whether two advertisements say the same; used to tell listeners only of changes. */
export function sameCapabilities(a: WorkerCapabilities | null, b: WorkerCapabilities | null): boolean {
  if (a === null || b === null) return a === b;
  return a === b || canonical(a) === canonical(b);
}

function canonical(capabilities: WorkerCapabilities): string {
  const ranks = [...capabilities.ranks].sort(([a], [b]) => a - b);
  return JSON.stringify({
    ...capabilities,
    ranks: ranks.map(([rank, said]) => [
      rank,
      { ...said, actions: said.actions && [...said.actions].sort() },
    ]),
  });
}
