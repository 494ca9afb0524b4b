// The taking side of `kv.fetch` and of handoffs between processes: one DEALER per source, reservations matched to their answers by id.
import { loadZeromq } from '../../events/index.ts';
import type { FetchAnswer, FetchRefusal, PeerDirectory } from '../types.ts';
import {
  type ControlReply,
  decodeControlReply,
  encodeClaim,
  encodeDrop,
  encodeRelease,
  encodeReserve,
  MAX_CONTROL_BYTES,
} from './control-messages.ts';
import { SerialSender } from './serial-sender.ts';

/** Sources connected at a time; the longest unused one is dropped for a new one. */
const MAX_LINKS = 256;

/** Messages waiting for one source. */
const MAX_QUEUED = 1024;

const ENDPOINT = /^tcp:\/\/(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z.-]+):([0-9]{1,5})$/;

/** Reservations of one engine at its peers. */
export interface ControlPeers extends PeerDirectory {
  close(): void;
}

/**
 * A peer directory over ZeroMQ.
 * @param onNotice called after every answer, so that the engine is woken.
 */
export async function createControlPeers(onNotice: () => void): Promise<ControlPeers> {
  const { Dealer } = await loadZeromq();
  const links = new Map<string, PeerLink>();
  const linkTo = (endpoint: string): PeerLink | null => {
    const known = links.get(endpoint);
    if (known !== undefined) {
      // Latest use last.
      links.delete(endpoint);
      links.set(endpoint, known);
      return known;
    }
    if (!isEndpoint(endpoint) || (links.size >= MAX_LINKS && !dropIdle(links))) return null;
    const socket = new Dealer({
      linger: 0,
      maxMessageSize: MAX_CONTROL_BYTES,
      sendHighWaterMark: MAX_QUEUED,
      sendTimeout: 0,
      reconnectInterval: 20,
      reconnectMaxInterval: 1000,
      heartbeatInterval: 1000,
      heartbeatTimeout: 3000,
    });
    try {
      socket.connect(endpoint);
    } catch {
      socket.close();
      return null;
    }
    const link = new PeerLink(socket, onNotice);
    socket.events.on('disconnect', () => link.disconnected());
    links.set(endpoint, link);
    return link;
  };
  return {
    reserve(endpoint, request, answered, rateChanged) {
      const link = linkTo(endpoint);
      if (link === null) answered({ error: 'unreachable' });
      else link.reserve(request, answered, rateChanged ?? (() => undefined));
    },
    claim(endpoint, request, answered, rateChanged) {
      const link = linkTo(endpoint);
      if (link === null) answered({ error: 'unreachable' });
      else link.claim(request, answered, rateChanged);
    },
    drop(endpoint, handoff) {
      linkTo(endpoint)?.drop(handoff);
    },
    release(endpoint, id, how) {
      links.get(endpoint)?.release(id, how);
    },
    close() {
      for (const link of links.values()) link.close();
      links.clear();
    },
  };
}

/** Whether libzmq could connect to it; it takes some addresses that lead nowhere without complaint. */
function isEndpoint(endpoint: string): boolean {
  const port = Number(ENDPOINT.exec(endpoint)?.[2] ?? 0);
  return port > 0 && port <= 65_535;
}

/** Closes the longest unused link that has nothing under way; false when all have. */
function dropIdle(links: Map<string, PeerLink>): boolean {
  for (const [endpoint, link] of links) {
    if (!link.idle) continue;
    link.close();
    links.delete(endpoint);
    return true;
  }
  return false;
}

type ReserveRequest = Parameters<PeerDirectory['reserve']>[1];
type ClaimRequest = Parameters<PeerDirectory['claim']>[1];

interface Reservation {
  /** Null = a claim, which names the run it means itself. */
  readonly request: ReserveRequest | null;
  readonly answered: (answer: FetchAnswer) => void;
  readonly rateChanged: (gbps: number) => void;
  /** The source granted it. */
  held: boolean;
  /** Epoch it was last asked under. */
  epoch: string;
}

interface LinkSocket {
  send(frames: Uint8Array[]): Promise<void>;
  close(): void;
  [Symbol.asyncIterator](): AsyncIterator<readonly Uint8Array[]>;
}

/** One source. */
class PeerLink {
  readonly #socket: LinkSocket;
  readonly #sender: SerialSender;
  readonly #onNotice: () => void;
  readonly #reservations = new Map<number, Reservation>();
  /** The source's run, as it last said; empty before its first answer. */
  #epoch = '';
  #closed = false;

  constructor(socket: LinkSocket, onNotice: () => void) {
    this.#socket = socket;
    this.#sender = new SerialSender(socket, MAX_QUEUED);
    this.#onNotice = onNotice;
    this.#read().catch((error: unknown) => {
      if (!this.#closed) throw error;
    });
  }

  get idle(): boolean {
    return this.#reservations.size === 0;
  }

  reserve(
    request: ReserveRequest,
    answered: (answer: FetchAnswer) => void,
    rateChanged: (gbps: number) => void,
  ): void {
    const reservation: Reservation = { request, answered, rateChanged, held: false, epoch: this.#epoch };
    this.#reservations.set(request.id, reservation);
    this.#ask(request, reservation.epoch);
  }

  claim(
    request: ClaimRequest,
    answered: (answer: FetchAnswer) => void,
    rateChanged: (gbps: number) => void,
  ): void {
    this.#reservations.set(request.id, { request: null, answered, rateChanged, held: false, epoch: '' });
    this.#send(encodeClaim(request));
  }

  drop(handoff: string): void {
    this.#send(encodeDrop(handoff));
  }

  release(id: number, how: 'done' | 'cancel'): void {
    if (this.#reservations.delete(id)) this.#send(encodeRelease(how, id));
  }

  /**
   * Nothing flows from a source that is gone: what runs stands still until the engine gives it up. A prompt that it computed is lost
   * with it.
   */
  disconnected(): void {
    for (const { answered, held, rateChanged, request } of [...this.#reservations.values()]) {
      if (request === null) answered({ error: 'unreachable' });
      else if (held) rateChanged(0);
    }
    this.#onNotice();
  }

  close(): void {
    this.#closed = true;
    this.#reservations.clear();
    this.#sender.close();
    this.#socket.close();
  }

  async #read(): Promise<void> {
    for await (const [delimiter, payload, ...more] of this.#socket) {
      if (this.#closed) return;
      if (delimiter?.length !== 0 || payload === undefined || more.length > 0) continue;
      let reply: ControlReply;
      try {
        reply = decodeControlReply(payload);
      } catch {
        // Counts as no answer; the engine's own timeout ends the wait.
        continue;
      }
      this.#heard(reply);
    }
  }

  #heard(reply: ControlReply): void {
    if (reply.op !== 'rate' && reply.epoch !== '') this.#epoch = reply.epoch;
    const id = Number(reply.id);
    const reservation = this.#reservations.get(id);
    if (reservation === undefined) return;
    if (reply.op === 'rate') {
      if (reservation.held) reservation.rateChanged(reply.gbps);
    } else if (reply.op === 'reserved') {
      reservation.held = true;
      const { bytes, cached, gbps, held } = reply;
      const told = cached === undefined ? null : { cachedTokens: cached };
      reservation.answered({ held, bytes: Number(bytes), gbps, ...told });
    } else if (
      reply.code === 'wrong_epoch' &&
      reservation.request !== null &&
      this.#epoch !== reservation.epoch
    ) {
      // The source was restarted since it was last heard: the hint is newer than this link, so ask the new run.
      reservation.epoch = this.#epoch;
      this.#ask(reservation.request, reservation.epoch);
      return;
    } else {
      this.#reservations.delete(id);
      reservation.answered({ error: refusalOf(reply.code) });
    }
    this.#onNotice();
  }

  #ask(request: ReserveRequest, epoch: string): void {
    this.#send(encodeReserve({ ...request, epoch }));
  }

  #send(payload: Uint8Array): void {
    this.#sender.send([EMPTY, payload]);
  }
}

const EMPTY = new Uint8Array(0);

function refusalOf(code: string): FetchRefusal {
  return code === 'wrong_epoch' || code === 'busy' || code === 'too_many' || code === 'unreachable'
    ? code
    : 'nothing_held';
}
