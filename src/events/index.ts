// From engines to the prefix index: sources, decoding, application.
export type {
  AllBlocksClearedEvent,
  BlockRemovedEvent,
  BlockStoredEvent,
  HintOutcomeKind,
  KvEvent,
  KvEventBatch,
  KvEventSink,
  KvEventSource,
  KvHintOutcomeEvent,
} from './types.ts';
