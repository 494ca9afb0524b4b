// From engines to the prefix index: sources, decoding, application.
export { decodeEventBatch } from './decode-batch.ts';
export { encodeEventBatch } from './encode-batch.ts';
export type { EventFeed, RejectReason } from './event-feed.ts';
export {
  createKvEventApplier,
  type KvEventApplier,
  type KvEventApplierOptions,
} from './kv-event-applier.ts';
export type {
  AllBlocksClearedEvent,
  BlockRemovedEvent,
  BlockStoredEvent,
  KvEvent,
  KvEventBatch,
  KvEventScope,
  KvEventSink,
  KvEventSource,
  KvHintOutcomeEvent,
} from './types.ts';
export { subscribeZmq, type ZmqSubscription } from './zmq-source.ts';
