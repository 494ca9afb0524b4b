// From engines to the prefix index: sources, decoding, application.
export { decodeEventBatch, MAX_BATCH_EVENTS } from './decode-batch.ts';
export { encodeEventBatch } from './encode-batch.ts';
export { MAX_BATCH_HASHES, MAX_BATCH_TOKENS } from './event-fields.ts';
export type {
  AllBlocksClearedEvent,
  BlockRemovedEvent,
  BlockStoredEvent,
  HintOutcomeKind,
  KvEvent,
  KvEventBatch,
  KvEventScope,
  KvEventSink,
  KvEventSource,
  KvHintOutcomeEvent,
} from './types.ts';
