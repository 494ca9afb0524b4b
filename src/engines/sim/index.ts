// Dialect `sim`: the vLLM-shaped API with KV hints, as the simulated engine speaks it.
import type { EngineDialect } from '../dialect.ts';
import { readAnswer } from './answer-reader.ts';
import { writeCall } from './engine-call.ts';
import { OUTCOMES_HEADER, readHintOutcomes } from './hint-outcomes.ts';

export { streamedAnswer } from './streamed-answer.ts';

/** The simulated engine's dialect. */
export const SIM_DIALECT: EngineDialect = {
  name: 'sim',
  speaks: (hashScheme) => hashScheme.startsWith('sim-xxh3/'),
  call: writeCall,
  read: readAnswer,
  outcomes: (headers) => readHintOutcomes(headers[OUTCOMES_HEADER]),
  privateHeaders: new Set([OUTCOMES_HEADER]),
};
