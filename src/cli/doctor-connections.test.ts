import { afterEach, expect, test } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { bindEventPublisher, type EventPublisher } from '../simulator/index.ts';
import { topicOf } from './doctor-connections.ts';

let publisher: EventPublisher | undefined;
let publishing: NodeJS.Timeout | undefined;
afterEach(() => {
  clearInterval(publishing);
  publisher?.close();
});

const bound = async (): Promise<EventPublisher> => {
  publisher = await bindEventPublisher({
    ...{
      topic: 'kv-of-another',
      rank: 0,
      history: 0,
      replayFrames: 3,
      faults: null,
      clock: new ManualClock(),
    },
    warn: () => undefined,
  });
  return publisher;
};

/** Time passes where nothing more is published. */
function silence(clock: ManualClock): void {
  setImmediate(() => clock.advanceTo(clock.now() + 10_000));
}

test('asks again where what was computed first came before the subscription', async () => {
  const { endpoint, publish } = await bound();
  const clock = new ManualClock();
  const tries: number[] = [];
  const topic = await topicOf(endpoint, clock, async (nth) => {
    tries.push(nth);
    if (nth === 0) silence(clock);
    else publishing = setInterval(() => publish([{ kind: 'cleared' }], 0), 5);
    return true;
  });
  expect(topic).toBe('kv-of-another');
  expect(tries).toEqual([0, 1]);
});

test('gives up on one that publishes nothing', async () => {
  const { endpoint } = await bound();
  const clock = new ManualClock();
  const tries: number[] = [];
  const topic = await topicOf(endpoint, clock, async (nth) => {
    tries.push(nth);
    silence(clock);
    return true;
  });
  expect(topic).toBeNull();
  expect(tries).toEqual([0, 1, 2]);
});

test('does not wait for one that computes nothing', async () => {
  const { endpoint } = await bound();
  const tries: number[] = [];
  const topic = await topicOf(endpoint, new ManualClock(), async (nth) => {
    tries.push(nth);
    return false;
  });
  expect([topic, tries]).toEqual([null, [0]]);
});
