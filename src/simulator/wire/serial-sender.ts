// Sends messages on one ZeroMQ socket in order: the library allows a single send at a time.

/** What it needs of a socket. */
export interface SendingSocket {
  send(frames: Uint8Array[]): Promise<void>;
}

/** A queue in front of a socket. */
export class SerialSender {
  readonly #socket: SendingSocket;
  readonly #capacity: number;
  #queue: Uint8Array[][] = [];
  #sending = false;
  #closed = false;

  /** @param capacity messages queued here at most; further ones are dropped. */
  constructor(socket: SendingSocket, capacity: number) {
    this.#socket = socket;
    this.#capacity = capacity;
  }

  /** Queues a message. A message the socket refuses, because its own queue is full or it was closed, is dropped. */
  send(frames: Uint8Array[]): void {
    if (this.#closed || this.#queue.length >= this.#capacity) return;
    this.#queue.push(frames);
    if (!this.#sending) void this.#drain();
  }

  /** Drops what is queued. */
  close(): void {
    this.#closed = true;
    this.#queue = [];
  }

  async #drain(): Promise<void> {
    this.#sending = true;
    while (!this.#closed && this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      for (const frames of batch) {
        if (this.#closed) break;
        await this.#socket.send(frames).catch(() => undefined);
      }
    }
    this.#sending = false;
  }
}
