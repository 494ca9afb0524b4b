import { expect, test } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import type { ZmqReplayOptions, ZmqSubscription } from '../events/index.ts';
import { Fleet, type WorkerCapabilities } from '../fleet/index.ts';
import { type LogFields, ManualClock, NO_LOG, PointsmanError } from '../plugin/index.ts';
import {
  EventSubscriptions,
  type EventSubscriptionsOptions,
  unconnectedStreams,
} from './event-subscriptions.ts';

interface Opened extends ZmqSubscription {
  closed: boolean;
}

function setUp() {
  const fleet = new Fleet();
  const opened: Opened[] = [];
  const delivered: string[] = [];
  const errors: string[] = [];
  const warnings: LogFields[] = [];
  const told: string[] = [];
  const replays: ZmqReplayOptions[] = [];
  const sink: EventSubscriptionsOptions['sink'] = {
    onBatch: (owner, sequence) => delivered.push(`${owner}:${sequence}`),
    askAt: (owner, replay) => told.push(`${owner} ${replay === null ? 'asks nowhere' : 'can ask'}`),
    onConnection: (owner, connected) => told.push(`${owner} ${connected ? 'connected' : 'cut'}`),
  };
  const clock = new ManualClock(0);
  let changes = 0;
  const cuts: bigint[] = [];
  const subscriptions = new EventSubscriptions({
    fleet,
    sink,
    clock,
    replay(options) {
      replays.push(options);
      return { replay: () => () => undefined };
    },
    log: {
      ...NO_LOG,
      error: (message) => errors.push(message),
      warn: (_message, fields = {}) => warnings.push(fields),
    },
    async subscribe(subscription) {
      if (subscription.endpoint === 'bad') throw new Error('no address');
      const entry: Opened = { ...subscription, closed: false };
      opened.push(entry);
      return {
        close() {
          entry.closed = true;
        },
      };
    },
    onChange: () => {
      changes += 1;
    },
    onCut: (worker) => cuts.push(worker),
  });
  return {
    fleet,
    clock,
    opened,
    delivered,
    errors,
    warnings,
    subscriptions,
    cuts,
    changes: () => changes,
    told,
    replays,
  };
}

const endpoint = (address: string, topic = '', replay: string | null = null) => ({
  address,
  binds: false,
  replay,
  topic,
});

function advertising(connect: string): WorkerCapabilities {
  const rank = { routerHint: false, actions: null, sourceControlEndpoint: null, kvEvents: endpoint(connect) };
  return {
    epoch: connect,
    model: 'tiny',
    workerType: 'aggregated',
    blockSize: 16,
    hashScheme: 'x',
    reportsOutcomes: false,
    ranks: new Map([[0, rank]]),
  };
}

const NO_BYTES = new Uint8Array(0);

test('each rank gets one subscription, at the configured endpoint or else the advertised one', () => {
  const { fleet, opened, subscriptions } = setUp();
  const kvEvents = new Map([
    [0, endpoint('tcp://a:1', 'kv')],
    [1, endpoint('tcp://a:2')],
  ]);
  fleet.add(workerFixture({ id: 1n, ranks: { first: 0, count: 2 }, kvEvents }).spec);
  subscriptions.start();
  fleet.add(workerFixture({ id: 2n }).spec, advertising('tcp://b:1'));
  fleet.setCapabilities(1n, advertising('tcp://elsewhere:1'));
  expect(opened.map(({ endpoint, topic, owner }) => [endpoint, topic, owner])).toEqual([
    ['tcp://a:1', 'kv', 0],
    ['tcp://a:2', '', 1],
    ['tcp://b:1', '', 2],
  ]);
});

test('an engine that comes back with another endpoint is followed there, and the old stream is heard no more', async () => {
  const { fleet, opened, delivered, subscriptions } = setUp();
  subscriptions.start();
  fleet.add(workerFixture({ id: 1n }).spec);
  expect(subscriptions.status()).toEqual([
    { worker: 1n, rank: 0, endpoint: null, replay: null, connected: false },
  ]);
  fleet.setCapabilities(1n, advertising('tcp://b:1'));
  fleet.setCapabilities(1n, advertising('tcp://b:2'));
  await Promise.resolve();
  const [old, current] = opened;
  expect([old?.closed, current?.closed]).toEqual([true, false]);
  old?.sink.onBatch(0, 5, NO_BYTES);
  current?.sink.onBatch(0, 0, NO_BYTES);
  expect(delivered).toEqual(['0:0']);
});

test('a stream that does not connect within five seconds is told of once, and named while it does not', () => {
  const { fleet, opened, subscriptions, clock, warnings } = setUp();
  const kvEvents = new Map([
    [0, endpoint('tcp://a:1')],
    [1, endpoint('tcp://a:2')],
  ]);
  fleet.add(workerFixture({ id: 1n, ranks: { first: 0, count: 2 }, kvEvents }).spec);
  subscriptions.start();
  opened[0]?.onConnection?.(true);
  clock.advanceTo(4_999);
  expect(warnings).toEqual([]);
  clock.advanceTo(20_000);
  expect(warnings).toEqual([{ worker: 1n, endpoint: 'tcp://a:2' }]);
  const sentence = 'the KV events of worker 1 rank 1 at tcp://a:2 are not connected';
  expect(unconnectedStreams(subscriptions)).toEqual([sentence]);
  opened[1]?.onConnection?.(true);
  expect(unconnectedStreams(subscriptions)).toEqual([]);
  expect(unconnectedStreams(null)).toEqual([]);
  fleet.remove(1n);
  expect(clock.nextTimerAt()).toBeNull();
});

test('connection and loss show in the status and are told', () => {
  const { fleet, opened, subscriptions, cuts, changes } = setUp();
  const kvEvents = new Map([[0, endpoint('tcp://a:1')]]);
  const worker = fleet.add(workerFixture({ id: 1n, kvEvents }).spec);
  subscriptions.start();
  const connected = (): boolean | undefined => subscriptions.status()[0]?.connected;
  const seen = () => [connected(), subscriptions.hears(worker), cuts.length];
  expect(seen()).toEqual([false, false, 0]);
  opened[0]?.onConnection?.(true);
  expect(seen()).toEqual([true, true, 0]);
  opened[0]?.onConnection?.(false);
  expect(seen()).toEqual([false, false, 1]);
  // What never stood cannot be cut.
  opened[0]?.onConnection?.(false);
  opened[0]?.onConnection?.(true);
  expect([...seen(), changes()]).toEqual([true, true, 1, 4]);
  subscriptions.close();
  opened[0]?.onConnection?.(false);
  expect([changes(), cuts]).toEqual([4, [1n]]);
});

test('removed workers and a closed router leave no subscription, even one that was just being opened', async () => {
  const { fleet, opened, subscriptions } = setUp();
  const kvEvents = new Map([[0, endpoint('tcp://a:1')]]);
  subscriptions.start();
  fleet.add(workerFixture({ id: 1n, kvEvents }).spec);
  fleet.add(workerFixture({ id: 2n, kvEvents }).spec);
  fleet.remove(1n);
  subscriptions.close();
  fleet.add(workerFixture({ id: 3n, kvEvents }).spec);
  await Promise.resolve();
  expect(opened.map(({ closed }) => closed)).toEqual([true, true]);
});

test('an endpoint that is no address is logged and the rest goes on', async () => {
  const { fleet, opened, errors, subscriptions } = setUp();
  fleet.add(workerFixture({ id: 1n, kvEvents: new Map([[0, endpoint('bad')]]) }).spec);
  fleet.add(workerFixture({ id: 2n, kvEvents: new Map([[0, endpoint('tcp://a:1')]]) }).spec);
  subscriptions.start();
  await Promise.resolve();
  await Promise.resolve();
  expect(errors).toEqual(['no address']);
  expect(opened.length).toBe(1);
});

test('a flood of foreign messages is logged a few times, with their number', () => {
  const { fleet, opened, subscriptions, warnings } = setUp();
  fleet.add(workerFixture({ kvEvents: new Map([[0, endpoint('tcp://a:1')]]) }).spec);
  subscriptions.start();
  const error = new PointsmanError('PM_EVENT_MESSAGE', 'no KV event message');
  for (let message = 0; message < 100_000; message += 1) opened[0]?.onError(error);
  expect(warnings.map(({ messages }) => messages)).toEqual(Array.from({ length: 17 }, (_, bit) => 2 ** bit));
});

test('ranks without an endpoint of their own are found beside rank 0, as engines offset their ports', () => {
  const { fleet, opened, subscriptions, replays } = setUp();
  const kvEvents = new Map([[0, endpoint('tcp://a:5557', 'kv', 'tcp://a:6557')]]);
  fleet.add(workerFixture({ id: 1n, ranks: { first: 0, count: 3 }, kvEvents }).spec);
  const own = new Map([
    [0, { ...endpoint('inproc://events'), binds: true }],
    [1, endpoint('tcp://b:9')],
  ]);
  fleet.add(workerFixture({ id: 2n, ranks: { first: 0, count: 3 }, kvEvents: own }).spec);
  subscriptions.start();
  expect(opened.map(({ endpoint, topic, binds }) => [endpoint, topic, binds])).toEqual([
    ['tcp://a:5557', 'kv', false],
    ['tcp://a:5558', 'kv', false],
    ['tcp://a:5559', 'kv', false],
    ['inproc://events', '', true],
    ['tcp://b:9', '', false],
    ['inproc://events_dp2', '', true],
  ]);
  expect(replays.map((options) => options.endpoint)).toEqual([
    'tcp://a:6557',
    'tcp://a:6558',
    'tcp://a:6559',
  ]);
  expect(subscriptions.status().map(({ replay }) => replay)).toEqual([
    'tcp://a:6557',
    'tcp://a:6558',
    'tcp://a:6559',
    null,
    null,
    null,
  ]);
});

test('a stream learns where to ask and when its connection stands, and is left alone when it is dropped', () => {
  const { fleet, opened, subscriptions, told } = setUp();
  const kvEvents = new Map([[0, endpoint('tcp://a:1', '', 'tcp://a:2')]]);
  fleet.add(workerFixture({ id: 1n, kvEvents }).spec);
  subscriptions.start();
  opened[0]?.onConnection?.(true);
  opened[0]?.onConnection?.(false);
  opened[0]?.onConnection?.(true);
  fleet.remove(1n);
  expect(told).toEqual(['0 can ask', '0 connected', '0 cut', '0 connected', '0 cut', '0 asks nowhere']);
});
