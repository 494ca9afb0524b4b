// What the two engines of a request are told, from how the prefill worker hands KV over. Field names: vLLM's NIXL and Mooncake
// connectors, SGLang's bootstrap.
import type { EngineHandoff } from '../../engines/index.ts';
import { handoffOf, type Worker, type WorkerHandoff } from '../../fleet/index.ts';
import { PointsmanError, type Rng } from '../../plugin/index.ts';
import { drawRoom, roomOfRank } from './bootstrap-room.ts';

/** Both sides of one handoff. */
export interface HandoffPlan {
  readonly kind: WorkerHandoff['kind'];
  readonly prefill: EngineHandoff;
  /** Null = only the answer of the prefill tells, so decode waits for it. */
  readonly decode: EngineHandoff | null;
}

/** What vLLM's connector asks of a prefill. */
const GIVE = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};
const TAKE = { do_remote_decode: false, do_remote_prefill: true };

/**
 * Plans the handoff from a booked rank.
 * @throws PointsmanError PM_DISAGG_HANDOFF when the worker does not say where it is to be met.
 */
export function planHandoff(worker: Worker, rank: number, requestId: string, rng: Rng): HandoffPlan {
  const handoff = handoffOf(worker);
  const { engineId, kind, ppSize, tpSize } = handoff;
  if (kind === 'nixl') return { kind, prefill: { shape: 'vllm', params: GIVE }, decode: null };
  const { host, port } = addressOf(worker, handoff);
  if (kind === 'bootstrap') {
    const { count, first } = worker.spec.ranks;
    const room = roomOfRank(drawRoom(rng), rank - first, count);
    const meeting = { shape: 'sglang', host, port, room } as const;
    return {
      kind,
      prefill: { ...meeting, prefillRank: null },
      decode: { ...meeting, prefillRank: rank },
    };
  }
  if (kind === 'mooncake') {
    const transfer = { transfer_id: requestId };
    const address = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
    return {
      kind,
      prefill: { shape: 'vllm', params: { do_remote_decode: true, do_remote_prefill: false, ...transfer } },
      decode: {
        shape: 'vllm',
        params: { ...TAKE, ...transfer, remote_engine_id: engineId, remote_bootstrap_addr: address },
      },
    };
  }
  return {
    kind,
    prefill: { shape: 'vllm', params: GIVE },
    decode: {
      shape: 'vllm',
      params: {
        ...TAKE,
        remote_engine_id: engineId,
        remote_host: host,
        remote_port: port,
        tp_size: tpSize,
        pp_size: ppSize,
      },
    },
  };
}

function addressOf({ spec }: Worker, { address, kind }: WorkerHandoff): { host: string; port: number } {
  if (address !== null) return address;
  throw new PointsmanError(
    'PM_DISAGG_HANDOFF',
    `prefill worker ${spec.id} hands KV over by ${kind} and does not say where; give it handoff.host and handoff.port`,
    { details: { worker_id: String(spec.id), kind } },
  );
}
