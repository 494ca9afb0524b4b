// Dialect `llamacpp`: the HTTP server of llama.cpp as it is. Each of its slots is a rank that holds one sequence.
import type { EngineDialect } from '../dialect.ts';
import { readAnswer } from '../sim/answer-reader.ts';
import { describeLlamaServer } from './describe.ts';
import { hintsLeftOut, writeCall } from './engine-call.ts';

/** llama.cpp's dialect. */
export const LLAMACPP_DIALECT: EngineDialect = {
  name: 'llamacpp',
  speaks: (hashScheme) => /^llamacpp(?:\/|$)/.test(hashScheme),
  call: writeCall,
  read: readAnswer,
  outcomes: (_, request) => hintsLeftOut(request),
  privateHeaders: new Set(),
  describe: describeLlamaServer,
  oneSequencePerRank: true,
};
