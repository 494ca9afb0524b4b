// Dialect `trtllm`: NVIDIA's `trtllm-serve` (docs/engines/trtllm.md).
import type { EngineDialect } from '../dialect.ts';
import { readAnswer } from '../sim/answer-reader.ts';
import { describeTrtllm } from './describe.ts';
import { loweringOutcomes, writeCall } from './engine-call.ts';

/** TensorRT-LLM's dialect. */
export const TRTLLM_DIALECT: EngineDialect = {
  name: 'trtllm',
  // No server says so: a worker is told by its answers, or by its configuration.
  speaks: () => false,
  call: writeCall,
  read: readAnswer,
  outcomes: (_, request) => loweringOutcomes(request),
  privateHeaders: new Set(),
  describe: describeTrtllm,
};
