// Writes a request for the simulated engine: vLLM's, and where engines meet in a room, SGLang's handoff fields.
import type { EngineCall } from '../dialect.ts';
import type { EngineRequest } from '../types.ts';
import { writeCall as writeVllmCall } from '../vllm/engine-call.ts';

/** The call for one request. @throws PointsmanError PM_ENGINE_REQUEST when there is no body or it nests too deep. */
export function writeCall(request: EngineRequest): EngineCall {
  const { handoff } = request;
  if (handoff?.shape !== 'sglang') return writeVllmCall(request);
  return writeVllmCall(request, {
    bootstrap_host: handoff.host,
    bootstrap_port: handoff.port,
    bootstrap_room: handoff.room,
    ...(handoff.prefillRank === null ? null : { disagg_prefill_dp_rank: handoff.prefillRank }),
  });
}
