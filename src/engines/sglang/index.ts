// Dialect `sglang`: SGLang's HTTP server (docs/engines/sglang.md).
import type { EngineDialect } from '../dialect.ts';
import { readAnswer } from '../sim/answer-reader.ts';
import { abortCall, carriesHint, closeCall, usesGenerate, writeCall } from './engine-call.ts';
import { readGenerateAnswer } from './generate-answer.ts';
import { loweringOutcomes } from './hints.ts';
import { askSglangLoad } from './loads.ts';
import { describeSglang } from './server-info.ts';

/** SGLang's dialect. */
export const SGLANG_DIALECT: EngineDialect = {
  name: 'sglang',
  // No server says so: a worker is told by its answers, or by its configuration.
  speaks: () => false,
  call: writeCall,
  read: (request, sink, headers) =>
    usesGenerate(request) ? readGenerateAnswer(request, sink, headers.date) : readAnswer(request, sink),
  outcomes: (_, request) => loweringOutcomes(request, carriesHint(request)),
  privateHeaders: new Set(),
  rewrites: (request) => usesGenerate(request) || request.asksPromptTokenIds === true,
  describe: describeSglang,
  load: askSglangLoad,
  afterAnswer: closeCall,
  abortCall,
};
