// How waits for a turn end, and what is left behind.
import { describe, expect, it } from 'vitest';
import { classified, queued, settings, THRESHOLD, TWO } from './admission-queue.fixtures.ts';
import { prompt, RecordingSink } from './road.fixtures.ts';

describe('a wait', () => {
  it('ends when the request was due, with the deadline and a time to try again', async () => {
    const on = await queued(THRESHOLD, classified({ dueAt: 1500 }));
    on.arrive();
    const { sink } = on.arrive();
    on.later(499);
    expect(sink.heard).toEqual([]);
    on.later(1);
    expect(sink.heard).toEqual(['failed PM_QUEUE_DEADLINE before head']);
    expect([sink.error?.status, sink.error?.details]).toEqual([
      429,
      {
        refusal: 'queue_deadline',
        policy_class: 'default',
        model: 'tiny',
        role: 'aggregated',
        waited_ms: 500,
        retry_after: '1',
      },
    ]);
    // One that is overdue when it would begin to wait does not.
    on.later(1);
    expect(on.arrive().sink.heard).toEqual(['failed PM_QUEUE_DEADLINE before head']);
    expect([
      on.count('pointsman_overload_refusals_total tiny queue_deadline'),
      on.count('pointsman_queue_requests_total tiny aggregated default expired'),
    ]).toEqual([2, 1]);
    on.end(0);
    expect([on.arrive().sink.heard[0], on.clock.nextTimerAt()]).toEqual(['booked 1/0', null]);
  });

  it('does not end early where a due time is further off than a timer reaches', async () => {
    const dueAt = 1000 + 2 ** 31 + 5000;
    const on = await queued(THRESHOLD, classified({ dueAt }));
    on.arrive();
    const { sink, ticket } = on.arrive();
    on.later(150);
    expect(sink.heard).toEqual([]);
    ticket.abort();
    on.end(0);
    expect(on.clock.nextTimerAt()).toBeNull();
  });

  it('ends when the client leaves, without a word, and the next one has its place', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    const gone = on.arrive();
    on.arrive();
    gone.ticket.abort();
    gone.ticket.abort();
    expect([
      gone.sink.heard,
      on.count('pointsman_queue_requests_total tiny aggregated default aborted'),
    ]).toEqual([[], 1]);
    on.end(0);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r3']);
  });

  it('counts as a request under way', async () => {
    const on = await queued(THRESHOLD, { concurrentRequests: 2 });
    on.arrive();
    on.arrive();
    expect(on.arrive().sink.heard).toEqual(['failed PM_OVERLOADED before head']);
  });

  it('ends with an answer for everybody when the road closes', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    const waiting = [on.arrive(), on.arrive()];
    on.road.close();
    const stopped = ['failed PM_SHUTTING_DOWN before head'];
    expect(waiting.map(({ sink }) => sink.heard)).toEqual([stopped, stopped]);
    expect(on.arrive().sink.heard).toEqual(stopped);
    on.end(0);
    expect([on.arrive().sink.heard[0], on.clock.nextTimerAt()]).toEqual(['booked 1/0', null]);
  });

  it('is not asked of those who will not wait', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    on.arrive();
    const refused = on.arrive({ queueing: 'refuse' }).sink;
    expect(refused.heard).toEqual(['failed PM_QUEUE_WOULD_WAIT before head']);
    expect(refused.error?.details).toMatchObject({
      policy_class: 'default',
      pending_count: 1,
      pending_isl_tokens: 64,
      pending_cached_tokens: 0,
    });
    on.arrive({ queueing: 'bypass' });
    expect(on.dispatched()).toEqual(['r1', 'r4']);
  });

  it('goes on after a door that fails, or asks for more, while it is told', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    const broken = new RecordingSink();
    broken.failOn = 'booked';
    on.arrive({}, broken);
    const again = new RecordingSink();
    again.also = (call) => {
      if (call === 'booked') on.arrive();
    };
    on.arrive({}, again);
    on.end(0);
    on.now();
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r3']);
    on.end(1);
    on.now();
    on.end(2);
    on.expectIdle();
  });
});

describe('a reload', () => {
  it('moves who waits to the default family where the class is gone, and loses nobody', async () => {
    const on = await queued(settings(TWO));
    on.arrive();
    on.arrive({ tokens: prompt(2, 64) });
    on.arrive({ tokens: prompt(3, 128), policyClass: 'express' });
    on.road.setQueues(settings(TWO.replace(/.*express.*\n/, '')));
    expect(on.gauge('pointsman_queue_pending_requests')).toMatchObject([
      { labels: { policy_class: 'short' }, value: 1 },
      { labels: { policy_class: 'long' }, value: 1 },
      { labels: { policy_class: 'open' }, value: 0 },
    ]);
    on.now();
    expect(on.dispatched()).toEqual(['r1']);
    for (const at of [0, 1, 2]) {
      on.end(at);
      on.now();
    }
    expect(on.dispatched()).toEqual(['r1', 'r2', 'r3']);
    on.expectIdle();
  });

  it('lets everybody go where there are no queues any more', async () => {
    const on = await queued(settings(TWO));
    for (let at = 0; at < 4; at += 1) on.arrive();
    on.road.setQueues(settings(''));
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r2', 'r3', 'r4']);
    on.arrive();
    expect(on.dispatched()).toHaveLength(5);
    for (let at = 0; at < 5; at += 1) on.end(at);
    on.expectIdle();
    expect(on.clock.nextTimerAt()).toBeNull();
  });
});
