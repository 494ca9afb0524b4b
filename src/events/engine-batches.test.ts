// Event batches that engines' own encoder wrote (Python's msgspec, from the engines' class definitions): recorded ones always, and where
// Python has the packages, processes that publish them over ZeroMQ, live and on request. CI has them and may skip nothing.
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  CASES,
  findPython,
  heldAfter,
  LAYOUTS,
  PROMPTS,
  printed,
  recordedBatches,
  startPublisher,
} from '../../tests/support/engine-batches.ts';
import type { Clock } from '../plugin/index.ts';
import { bench } from './applier.fixtures.ts';
import { decodeEventBatch, type KvEventReplay, streamState, subscribeZmq, zmqReplay } from './index.ts';

/** Real time. */
const realClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

const OWNER = 3;
const ALL = CASES.batches.map((_, number) => number);

/** A router's end of one stream, fed by whatever sends batches. */
function listener() {
  const built = bench({ clock: realClock });
  const held = () =>
    PROMPTS.map((prompt) => built.depth(OWNER, [...prompt], { blockSize: CASES.block_size }));
  const feed = () => {
    const found = built.applier.feed(OWNER);
    if (found === null) throw new Error('nothing was heard');
    return found;
  };
  return {
    ...built,
    feed,
    /** Waits until the index knows exactly this. */
    knows: (expected: readonly number[]) =>
      vi.waitFor(() => expect([held(), streamState(feed())]).toEqual([expected, 'exact']), {
        timeout: 10_000,
      }),
    held,
  };
}

/** Somebody who publishes the cases' batches. */
interface Publisher {
  readonly kind: string;
  /** @param kept batches it can repeat. */
  start(
    layout: string,
    kept: number,
    to: ReturnType<typeof listener>,
  ): Promise<{
    /** Begins to listen; returns once nothing more is missed. */
    listen(): Promise<void>;
    obey(order: `send ${number}` | `lose ${number}` | 'restart'): Promise<void>;
  }>;
}

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Recorded bytes, handed over by a call. */
const RECORDED: Publisher = {
  kind: 'recorded',
  async start(layout, kept, to) {
    const payloads = recordedBatches(layout);
    let history: { readonly sequence: number; readonly payload: Uint8Array }[] = [];
    let next = 0;
    let heard = false;
    const replay: KvEventReplay = {
      replay(from, into) {
        let wanted = true;
        queueMicrotask(() => {
          for (const { sequence, payload } of history)
            if (wanted && sequence >= from) into.batch(sequence, payload);
          if (wanted) into.ended();
        });
        return () => {
          wanted = false;
        };
      },
    };
    return {
      async listen() {
        heard = true;
        to.applier.askAt(OWNER, replay);
        to.applier.onConnection(OWNER, true);
      },
      async obey(order) {
        const [word, number = '0'] = order.split(' ');
        if (word === 'restart') {
          history = [];
          next = 0;
          return;
        }
        const payload = payloads[Number(number)] ?? new Uint8Array(0);
        const sequence = next;
        next += 1;
        history = [...history, { sequence, payload }].slice(-kept);
        if (word === 'send' && heard) to.applier.onBatch(OWNER, sequence, payload);
      },
    };
  },
};

const python = findPython();

/** A process of its own, over ZeroMQ. */
function processes(frames: 3 | 4): Publisher {
  return {
    kind: `process, ${frames} frames`,
    async start(layout, kept, to) {
      if ('missing' in python) throw new Error(python.missing);
      const publisher = await startPublisher(python.command, layout, frames, kept);
      closers.push(() => publisher.close());
      const problems: string[] = [];
      closers.push(() => expect(problems).toEqual([]));
      const onError = (error: Error) => problems.push(error.message);
      return {
        async listen() {
          to.applier.askAt(OWNER, zmqReplay({ endpoint: publisher.replay, clock: realClock, onError }));
          const connected = new Promise<void>((resolve, reject) => {
            subscribeZmq({
              endpoint: publisher.live,
              topic: 'kv',
              owner: OWNER,
              sink: to.applier,
              onError,
              onConnection: (stands) => {
                to.applier.onConnection(OWNER, stands);
                if (stands) resolve();
              },
            }).then((source) => closers.push(() => source.close()), reject);
          });
          await connected;
          // The connection stands before the subscription has arrived.
          await publisher.obey('heard');
        },
        obey: publisher.obey,
      };
    },
  };
}

function scenarios(publisher: Publisher): void {
  it.each(LAYOUTS)('knows what the engine holds, batch by batch, from layout %s', async (layout) => {
    const to = listener();
    const engine = await publisher.start(layout, 100, to);
    await engine.listen();
    for (const number of ALL) {
      await engine.obey(`send ${number}`);
      await to.knows(heldAfter(ALL.slice(0, number + 1)));
    }
    expect(to.feed()).toMatchObject({ rejected: {}, unknownRemoves: 0, lastError: null, missedBatches: 0 });
  });

  it.each(['vllm', 'sglang'])('asks for what was lost on the way, from layout %s', async (layout) => {
    const to = listener();
    const engine = await publisher.start(layout, 100, to);
    await engine.listen();
    for (const number of [0, 1, 2]) await engine.obey(`send ${number}`);
    await to.knows(heldAfter([0, 1, 2]));
    for (const number of [3, 4, 5]) await engine.obey(`lose ${number}`);
    await engine.obey('send 6');
    await engine.obey('send 7');
    await to.knows(heldAfter(ALL));
    expect(to.feed()).toMatchObject({ gaps: 1, missedBatches: 0, rejected: {}, unknownRemoves: 0 });
  });

  it.each(['vllm', 'sglang'])(
    'forgets a process that another took over from, from layout %s',
    async (layout) => {
      const to = listener();
      const engine = await publisher.start(layout, 100, to);
      await engine.listen();
      for (const number of ALL) await engine.obey(`send ${number}`);
      await to.knows(heldAfter(ALL));
      await engine.obey('restart');
      await engine.obey('send 1');
      await engine.obey('send 2');
      await to.knows(heldAfter([1, 2]));
      expect(to.feed()).toMatchObject({ restarts: 1, missedBatches: 0 });
    },
  );

  it.each(['vllm', 'sglang'])('takes a history from before it listened, from layout %s', async (layout) => {
    const to = listener();
    const engine = await publisher.start(layout, 100, to);
    for (const number of [0, 1, 2, 3, 4, 5]) await engine.obey(`send ${number}`);
    await engine.listen();
    await engine.obey('send 6');
    await to.knows(heldAfter([0, 1, 2, 3, 4, 5, 6]));
    expect(to.feed().replayedBatches).toBeGreaterThanOrEqual(6);
  });

  it.each(['vllm', 'sglang'])(
    'believes nothing that rests on a history the engine no longer has, and says so, from layout %s',
    async (layout) => {
      const to = listener();
      const engine = await publisher.start(layout, 2, to);
      for (const number of [0, 1, 2, 3, 4]) await engine.obey(`send ${number}`);
      await engine.listen();
      // Stores behind a block that was told of before: nobody knows which prompt they belong to.
      await engine.obey('send 5');
      await engine.obey('send 7');
      await vi.waitFor(() => expect(to.feed().lastSequence).toBe(6), { timeout: 10_000 });
      expect([to.held(), streamState(to.feed())]).not.toEqual([heldAfter(ALL), 'exact']);
      expect(to.held()).toEqual([0, 0, 0]);
      expect(streamState(to.feed())).not.toBe('exact');
      // A clear makes it all known again.
      await engine.obey('send 0');
      await engine.obey('send 1');
      await to.knows(heldAfter([0, 1]));
    },
  );
}

describe('recorded batches', () => {
  scenarios(RECORDED);

  it('are read whole: no layout has a field that the decoder skips unawares', () => {
    for (const layout of LAYOUTS) {
      for (const payload of recordedBatches(layout))
        expect([layout, decodeEventBatch(payload).skipped]).toEqual([layout, undefined]);
    }
  });
});

describe.skipIf('missing' in python)(
  `batches of a Python process${'missing' in python ? ` (skipped: ${python.missing})` : ''}`,
  () => {
    it('are the recorded ones, byte for byte', () => {
      if ('missing' in python) throw new Error(python.missing);
      const made: Record<string, string[]> = JSON.parse(printed(python.command, 'record.py'));
      expect(Object.keys(made)).toEqual(LAYOUTS);
      for (const layout of LAYOUTS) {
        expect(made[layout]).toEqual(
          recordedBatches(layout).map((batch) => Buffer.from(batch).toString('hex')),
        );
      }
    });

    describe('that repeats batches with their topic', () => scenarios(processes(4)));
    describe('that repeats batches without a topic', () => scenarios(processes(3)));
  },
);
