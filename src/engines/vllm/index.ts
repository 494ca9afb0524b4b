// Dialect `vllm`: vLLM's OpenAI server as it is, and with a tier that reads hints.
import type { EngineDialect } from '../dialect.ts';
import { readAnswer } from '../sim/answer-reader.ts';
import { describeVllm } from './describe.ts';
import { writeCall } from './engine-call.ts';
import { loweringOutcomes } from './hints.ts';
import { explainRefusal } from './refusals.ts';

/** vLLM's dialect. */
export const VLLM_DIALECT: EngineDialect = {
  name: 'vllm',
  speaks: (hashScheme) => /^vllm(?:\/|$)/.test(hashScheme),
  call: (request) => writeCall(request),
  read: readAnswer,
  rewrites: ({ asksPromptTokenIds }) => asksPromptTokenIds === true,
  outcomes: (_, request) => loweringOutcomes(request),
  privateHeaders: new Set(),
  describe: describeVllm,
  explain: explainRefusal,
};
