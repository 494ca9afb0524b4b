import { describe, expect, it } from 'vitest';
import type { ZmqSubscription } from '../events/index.ts';
import { Fleet } from '../fleet/index.ts';
import { type LogFields, NO_LOG, PointsmanError } from '../plugin/index.ts';
import { EventSubscriptions } from './event-subscriptions.ts';

describe('event subscriptions', () => {
  it('log a flood of foreign messages a few times, with their number', async () => {
    const opened: ZmqSubscription[] = [];
    const logged: LogFields[] = [];
    const fleet = new Fleet();
    const subscriptions = new EventSubscriptions({
      fleet,
      sink: { onBatch() {} },
      log: { ...NO_LOG, warn: (_message, fields = {}) => logged.push(fields) },
      subscribe: async (subscription) => {
        opened.push(subscription);
        return { close() {} };
      },
    });
    subscriptions.start();
    fleet.add({
      id: 1n,
      model: 'tiny',
      url: 'http://127.0.0.1:9001',
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map([[0, { connect: 'tcp://127.0.0.1:1', replay: null, topic: '' }]]),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
    });
    const error = new PointsmanError('PM_EVENT_MESSAGE', 'no KV event message');
    for (let message = 0; message < 100_000; message += 1) opened[0]?.onError(error);
    expect(logged.map(({ messages }) => messages)).toEqual(Array.from({ length: 17 }, (_, bit) => 2 ** bit));
    subscriptions.close();
  });
});
