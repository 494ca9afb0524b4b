// From engines to the prefix index: sources, decoding, application.
export { decodeEventBatch } from './decode-batch.ts';
export { encodeEventBatch } from './encode-batch.ts';
export { encodeSglangBatch } from './encode-sglang-batch.ts';
export { encodeVllmBatch, type VllmWire } from './encode-vllm-batch.ts';
export type { SessionStore } from './event-application-options.ts';
export {
  countsCopies,
  type EventFeed,
  type RejectReason,
  type StreamState,
  streamState,
} from './event-feed.ts';
export type { EventWatch } from './event-watch.ts';
export {
  createKvEventApplier,
  type KvEventApplier,
  type KvEventApplierOptions,
} from './kv-event-applier.ts';
export { rankEndpoint } from './rank-endpoint.ts';
export type { ResumePoint } from './stream-port.ts';
export { type PollKvEvents, pollTrtllm, type TrtllmSubscription } from './trtllm-source.ts';
export type {
  AllBlocksClearedEvent,
  BlockRemovedEvent,
  BlockStoredEvent,
  KvEvent,
  KvEventBatch,
  KvEventReplay,
  KvEventScope,
  KvEventSink,
  KvEventSource,
  KvHintOutcomeEvent,
  KvReplayListener,
} from './types.ts';
export { loadZeromq } from './zeromq.ts';
export { type ZmqReplayOptions, zmqReplay } from './zmq-replay.ts';
export { subscribeZmq, type ZmqSubscription } from './zmq-source.ts';
