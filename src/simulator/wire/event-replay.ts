// Answers subscribers that missed batches, as vLLM's publisher does: a ROUTER socket takes (empty, first wanted sequence) and
// answers every kept batch from there on, then an end marker.
import { loadZeromq } from '../../events/index.ts';
import { errorText } from '../../plugin/index.ts';
import type { PublishedBatch } from '../core/event-history.ts';
import { SerialSender } from './serial-sender.ts';

/** Frames of an answer behind the peer's identity: current engines send the topic, older ones do not. */
export type ReplayFrames = 3 | 4;

/** Requests are this small; a peer that sends more is disconnected. */
const MAX_REQUEST_BYTES = 64;
/** Messages that may wait for one slow peer; beyond them libzmq drops, and the peer sees a hole. */
const ANSWERS_IN_FLIGHT = 4;
const TWO_32 = 4294967296;
const EMPTY = new Uint8Array(0);
/** −1 as a signed 64-bit number: no batch has it. */
const END_SEQUENCE = new Uint8Array(8).fill(0xff);

/** What is served. */
export interface EventReplayOptions {
  readonly topic: Uint8Array;
  /** ZeroMQ address to bind. */
  readonly address: string;
  readonly frames: ReplayFrames;
  /** Batches the history holds at most. */
  readonly history: number;
  /** Kept batches from a sequence number on, in order. */
  readonly since: (start: number) => readonly PublishedBatch[];
  /** Told of requests that get no answer. */
  readonly warn: (problem: string) => void;
}

/** A bound replay socket. */
export interface EventReplay {
  /** The address subscribers ask at. */
  readonly endpoint: string;
  close(): void;
}

/** Binds the replay socket. */
export async function bindEventReplay(options: EventReplayOptions): Promise<EventReplay> {
  const { Router } = await loadZeromq();
  const queue = ANSWERS_IN_FLIGHT * (options.history + 1);
  const socket = new Router({ linger: 0, maxMessageSize: MAX_REQUEST_BYTES, sendHighWaterMark: queue });
  try {
    await socket.bind(options.address);
  } catch (error) {
    socket.close();
    throw error;
  }
  const endpoint = socket.lastEndpoint ?? '';
  const sender = new SerialSender(socket, queue);
  let closed = false;
  const serve = async (): Promise<void> => {
    for await (const [identity, delimiter, start, ...more] of socket) {
      if (identity === undefined) continue;
      if (delimiter?.length !== 0 || start?.length !== 8 || more.length > 0) {
        options.warn('a replay request was ignored; it must be an empty frame and a sequence of 8 bytes');
        continue;
      }
      answer(options, sender, identity, sequenceOf(start));
    }
  };
  serve().catch((error: unknown) => {
    if (!closed) options.warn(`replay requests are no longer answered: ${errorText(error)}`);
  });
  return {
    endpoint,
    close() {
      if (closed) return;
      closed = true;
      sender.close();
      socket.close();
    },
  };
}

function answer(
  options: EventReplayOptions,
  sender: SerialSender,
  identity: Uint8Array,
  start: number,
): void {
  const { frames, since, topic } = options;
  for (const { payload, sequence } of since(start)) {
    const number = sequenceFrame(sequence);
    sender.send(
      frames === 4 ? [identity, EMPTY, topic, number, payload] : [identity, EMPTY, number, payload],
    );
  }
  sender.send(
    frames === 4 ? [identity, EMPTY, EMPTY, END_SEQUENCE, EMPTY] : [identity, EMPTY, END_SEQUENCE, EMPTY],
  );
}

/** A sequence number as it stands on the wire: 8 bytes, big-endian. */
export function sequenceFrame(sequence: number): Uint8Array {
  const frame = new Uint8Array(8);
  const view = new DataView(frame.buffer);
  view.setUint32(0, Math.floor(sequence / TWO_32));
  view.setUint32(4, sequence >>> 0);
  return frame;
}

/** Numbers beyond 2^53 lose digits, but stay beyond every batch. */
function sequenceOf(frame: Uint8Array): number {
  const view = new DataView(frame.buffer, frame.byteOffset, 8);
  return view.getUint32(0) * TWO_32 + view.getUint32(4);
}
