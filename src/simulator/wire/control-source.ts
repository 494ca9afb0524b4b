// The giving side of `kv.fetch` and of handoffs between processes: a ROUTER socket that grants reservations out of one engine.
import { loadZeromq } from '../../events/index.ts';
import type { FetchAnswer, FetchGrantRequest, HandoffClaim } from '../types.ts';
import {
  type ControlReply,
  type ControlRequest,
  decodeControlRequest,
  encodeReply,
  MAX_CONTROL_BYTES,
} from './control-messages.ts';
import { SerialSender } from './serial-sender.ts';

/** Pins of a fetch never last longer, whatever a peer asks for. */
const MAX_DEADLINE_MS = 60_000;
/** Claims to a computed prompt wait no longer. */
const MAX_CLAIM_MS = 3_600_000;

/** Replies queued at most; a peer whose reply is lost runs into its own timeout. */
const MAX_QUEUED = 65_536;

/** What a source needs. */
export interface ControlSourceOptions {
  /** Names this run of the engine; a reservation for another run is refused. */
  readonly epoch: () => string;
  readonly grant: (request: FetchGrantRequest) => FetchAnswer;
  readonly release: (key: string, how: 'done' | 'cancel') => void;
  readonly claim: (claim: HandoffClaim, answered: (answer: FetchAnswer) => void) => void;
  readonly drop: (handoff: string) => void;
  /** Told of each reservation's answer: `reserved` or an error code; `undecodable` for a message nobody can be answered for. */
  readonly onAnswer: (answer: string) => void;
}

/** A bound control channel. */
export interface ControlSource {
  /** The address targets connect to. */
  readonly endpoint: string;
  /** Tells the peer behind a grant its new share of the link, Gbit/s. */
  announceRate(key: string, gbps: number): void;
  close(): void;
}

/** Binds the control channel on a free loopback port. */
export async function bindControlSource(options: ControlSourceOptions): Promise<ControlSource> {
  const { Router } = await loadZeromq();
  const socket = new Router({ linger: 0, maxMessageSize: MAX_CONTROL_BYTES });
  await socket.bind('tcp://127.0.0.1:*');
  const endpoint = socket.lastEndpoint ?? '';
  const sender = new SerialSender(socket, MAX_QUEUED);
  const reply = (identity: Uint8Array, message: ControlReply): void => {
    sender.send([identity, EMPTY, encodeReply(message)]);
  };
  let closed = false;
  const serve = async (): Promise<void> => {
    for await (const [identity, delimiter, payload, ...more] of socket) {
      if (identity === undefined || payload === undefined || delimiter?.length !== 0 || more.length > 0) {
        options.onAnswer('undecodable');
        continue;
      }
      let request: ControlRequest;
      try {
        request = decodeControlRequest(payload);
      } catch {
        options.onAnswer('undecodable');
        continue;
      }
      const answer = handle(options, identity, request, (late) => {
        if (!closed) reply(identity, late);
      });
      if (answer !== null) reply(identity, answer);
    }
  };
  serve().catch((error: unknown) => {
    if (!closed) throw error;
  });
  return {
    endpoint,
    announceRate(key, gbps) {
      const peer = peerOf(key);
      if (peer !== null) reply(peer.identity, { op: 'rate', id: peer.id, gbps });
    },
    close() {
      if (closed) return;
      closed = true;
      sender.close();
      socket.close();
    },
  };
}

const EMPTY = new Uint8Array(0);

function handle(
  options: ControlSourceOptions,
  identity: Uint8Array,
  request: ControlRequest,
  later: (reply: ControlReply) => void,
): ControlReply | null {
  const { id } = request;
  const epoch = options.epoch();
  const refuse = (code: string): ControlReply => {
    options.onAnswer(code);
    return { op: 'error', id, code, epoch };
  };
  if (request.op === 'invalid') return refuse(request.code);
  const key = keyOf(identity, id);
  if (request.op === 'drop') {
    options.drop(request.handoff);
    return null;
  }
  if (request.op === 'done' || request.op === 'cancel') {
    options.release(key, request.op);
    return null;
  }
  const answerOf = (answer: FetchAnswer): ControlReply => {
    if ('error' in answer) return refuse(answer.error);
    options.onAnswer('reserved');
    const bytes = BigInt(answer.bytes ?? 0);
    const { cachedTokens: cached, gbps, held } = answer;
    const told = cached === undefined ? null : { cached };
    return { op: 'reserved', id, held, bytes, gbps, epoch: options.epoch(), ...told };
  };
  if (request.op === 'claim') {
    const { early, engineId, from, handoff } = request;
    const deadlineMs = Math.min(MAX_CLAIM_MS, Math.max(1, request.deadlineMs));
    options.claim(
      { key, handoff, engineId: engineId === '' ? null : engineId, from, early, deadlineMs },
      (answer) => later(answerOf(answer)),
    );
    return null;
  }
  if (request.epoch !== '' && request.epoch !== epoch) return refuse('wrong_epoch');
  return answerOf(
    options.grant({
      key,
      from: request.from,
      blockHashes: request.blockHashes,
      deadlineMs: Math.min(MAX_DEADLINE_MS, Math.max(1, request.deadlineMs)),
    }),
  );
}

/** Names a grant over all peers: the peer's ZeroMQ identity and its own number. */
function keyOf(identity: Uint8Array, id: bigint): string {
  return `${Buffer.from(identity).toString('hex')}:${id}`;
}

function peerOf(key: string): { identity: Uint8Array; id: bigint } | null {
  const [identity, id] = key.split(':');
  if (identity === undefined || id === undefined) return null;
  return { identity: Buffer.from(identity, 'hex'), id: BigInt(id) };
}
