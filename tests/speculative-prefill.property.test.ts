// Prompts computed ahead on a whole road: whatever ends whenever, every booking is freed, and each one is counted once.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SpeculativePrefills } from '../src/gateway/index.ts';
import { PointsmanError } from '../src/plugin/index.ts';
import type { ResponseSink, RoadRequest, RoadTicket } from '../src/road/index.ts';
import type { ChatPrompt, TokenizedPrompt, TokenSource } from '../src/tokens/index.ts';
import { countedTokens, givenRequest, SILENT } from './support/road-request.ts';
import { ANSWERED, scriptedFleet } from './support/scripted-fleet.ts';

const CHAT = {
  messages: [{ role: 'user', content: 'hi' }],
  tools: undefined,
  addGenerationPrompt: true,
  addSpecialTokens: false,
  variables: {},
  lastRole: 'user',
};
const ANSWER = Buffer.from('data: {"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}\n\n');
const LIMIT = 2;

/** Tokenizes when the test says so. */
class LateTokens implements Pick<TokenSource, 'encodeChat'> {
  readonly waiting: { resolve: (prompt: TokenizedPrompt) => void; reject: (error: Error) => void }[] = [];

  encodeChat(_chat: ChatPrompt): Promise<TokenizedPrompt> {
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }
}

async function bench(queues: string) {
  const counts = new Map<string, number>();
  const fleet = await scriptedFleet(`limits: { first_worker_wait: 1s, retries: 1 }\n${queues}`, ['', '']);
  const { road, scheduler } = fleet.core;
  const tokens = new LateTokens();
  let ids = 0;
  const speculative = new SpeculativePrefills({
    road,
    tokens: () => tokens,
    metrics: {
      count(_, { outcome = '' } = {}) {
        counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
      },
      observe() {},
      gauge() {},
    },
    newRequestId: () => `ahead-${++ids}`,
    limit: () => LIMIT,
  });
  const expectIdle = (): void => {
    expect(road.activeBookings()).toBe(0);
    const { activePrefillTokens, activeDecodeBlocks, activeRequests } = scheduler.loads;
    for (const column of [activePrefillTokens, activeDecodeBlocks, activeRequests])
      expect(column.every((value) => value === 0)).toBe(true);
  };
  return { ...fleet, counts, tokens, speculative, expectIdle };
}

type Bench = Awaited<ReturnType<typeof bench>>;

/** A client that hears the end of its answer. */
class Client implements ResponseSink {
  ended = '';
  /** Runs inside of the end. */
  readonly #also: () => void;

  constructor(also: () => void = () => undefined) {
    this.#also = also;
  }

  booked(): void {}
  head(): void {}
  data(): void {}
  tokens(): void {}
  finished(): void {
    this.ended = 'finished';
    this.#also();
  }
  failed(): void {
    this.ended = 'failed';
  }
}

interface Turn {
  readonly ticket: RoadTicket;
  readonly sink: Client;
}

function turnOf(id: string, session: number | null, changes: Partial<RoadRequest> = {}): RoadRequest {
  return givenRequest(id, countedTokens(64, (session ?? 9) * 1000), {
    api: 'chat',
    door: 'gateway',
    stream: true,
    tokensSource: 'local',
    session: session === null ? null : { sessionId: `s${session}`, agentHeaders: {} },
    ...changes,
  });
}

function arrive(on: Bench, id: string, session: number | null, speculates: boolean, also?: () => void): Turn {
  const sink = new Client(also);
  return { ticket: on.speculative.arrive(turnOf(id, session), CHAT, speculates, sink), sink };
}

async function settle(): Promise<void> {
  for (let at = 0; at < 4; at += 1) await Promise.resolve();
}

const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('turn' as const), session: fc.nat(3), speculates: fc.boolean() }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('engine' as const), which: fc.nat(20), how: fc.nat(5) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('tokens' as const), which: fc.nat(5), how: fc.nat(5) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('abort' as const), which: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), which: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(500) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('stop' as const) }) },
);

it.each(['', 'router: { router_queue_threshold: 0 }'])(
  'frees every booking, whatever is aborted, lost or refused at whichever await (%s)',
  async (queues) => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 60 }), async (actions) => {
        const on = await bench(queues);
        const turns: Turn[] = [];
        let ids = 0;
        let stopped = false;
        for (const step of actions) {
          if (step.do === 'turn') {
            // Every fifth session sends its next turn from inside of the end of this one.
            const again = (): void => {
              ids += 1;
              if (ids % 5 === 0) turns.push(arrive(on, `r${ids}`, step.session, step.speculates));
            };
            ids += 1;
            turns.push(arrive(on, `r${ids}`, step.session, step.speculates, again));
          } else if (step.do === 'engine') play(on, step.which, step.how);
          else if (step.do === 'tokens') tokenize(on, step.which, step.how);
          else if (step.do === 'abort') turns[step.which % Math.max(1, turns.length)]?.ticket.abort();
          else if (step.do === 'wait') on.clock.advanceTo(on.clock.now() + step.ms);
          else if (step.do === 'stop') {
            stopped = true;
            on.speculative.stop();
          } else on.core.road.workerGone(BigInt(step.which + 1));
          await settle();
          expect(on.speculative.active).toBeLessThanOrEqual(LIMIT);
          expect(on.speculative.followed).toBeLessThanOrEqual(4);
          if (stopped) expect([on.speculative.active, on.speculative.followed]).toEqual([0, 0]);
        }
        on.speculative.stop();
        for (const { ticket, sink } of turns) if (sink.ended === '') ticket.abort();
        while (on.tokens.waiting.length > 0) tokenize(on, 0, 0);
        await settle();
        on.clock.advanceTo(on.clock.now() + 10_000);
        on.expectIdle();
        expect([on.speculative.active, on.speculative.followed]).toEqual([0, 0]);
        const count = (outcome: string) => on.counts.get(outcome) ?? 0;
        const ahead = on.legs.filter(({ request }) => request.requestId.startsWith('ahead-'));
        expect(count('sent')).toBe(ahead.length);
        expect(count('completed') + count('failed')).toBeLessThanOrEqual(count('sent'));
        expect(count('sent')).toBeLessThanOrEqual(count('completed') + count('failed') + count('cancelled'));
        for (const { request } of ahead) {
          expect(request).toMatchObject({
            api: 'completions',
            stream: false,
            maxOutputTokens: 1,
            body: { max_tokens: 1 },
          });
          expect(request.tokens?.length).toBe(80);
        }
      }),
      { numRuns: 150 },
    );
  },
);

function play(on: Bench, which: number, how: number): void {
  const entry = on.legs[which % Math.max(1, on.legs.length)];
  if (entry === undefined) return;
  const { sink } = entry;
  const head = (status = 200): void => sink.head(status, { 'content-type': 'text/event-stream' }, []);
  if (how === 0) head();
  else if (how === 1) sink.tokens(1);
  else if (how === 2) {
    head();
    sink.data(ANSWER);
    sink.finished(ANSWERED);
  } else if (how === 3) {
    head(400);
    sink.finished(ANSWERED);
  } else if (how === 4) sink.failed(new PointsmanError('PM_ENGINE_LOST', 'gone'));
  else sink.failed(new PointsmanError('PM_ENGINE_UNREACHABLE', 'no connection'));
}

function tokenize(on: Bench, which: number, how: number): void {
  const { waiting } = on.tokens;
  const [one] = waiting.splice(which % Math.max(1, waiting.length), 1);
  if (one === undefined) return;
  if (how === 4) one.reject(new PointsmanError('PM_PROMPT_TOO_LONG', 'too long'));
  else if (how === 5) one.resolve({ tokens: new Uint32Array(80), source: 'estimate', estimated: 'template' });
  else one.resolve({ tokens: countedTokens(80, 7000), source: 'local' });
}

it('goes nowhere while it would wait, for a worker or for its turn, and is tried once', async () => {
  const on = await bench('router: { router_queue_threshold: 0 }');
  const first = arrive(on, 'r1', 1, true);
  play(on, 0, 2);
  arrive(on, 'r2', 2, false);
  arrive(on, 'r3', 3, false);
  await settle();
  tokenize(on, 0, 0);
  await settle();
  expect(first.sink.ended).toBe('finished');
  expect([...on.counts]).toEqual([['refused', 1]]);
  for (const { sink } of on.legs.slice(1)) sink.finished(ANSWERED);

  arrive(on, 'r4', 1, true);
  play(on, 3, 2);
  const { spec } = on.core.fleet.worker(1n) ?? expect.fail();
  on.core.fleet.remove(1n);
  on.core.fleet.remove(2n);
  await settle();
  tokenize(on, 0, 0);
  await settle();
  expect(on.counts.get('refused')).toBe(2);

  on.core.fleet.add({ ...spec, id: 3n }, null);
  arrive(on, 'r5', 1, true);
  play(on, 4, 2);
  await settle();
  tokenize(on, 0, 0);
  await settle();
  expect(on.legs.at(-1)?.request.requestId).toBe('ahead-3');
  play(on, 5, 5);
  on.clock.advanceTo(on.clock.now() + 1000);
  expect(on.legs).toHaveLength(6);
  expect([...on.counts]).toEqual([
    ['refused', 2],
    ['sent', 1],
    ['failed', 1],
  ]);
  on.expectIdle();
});

it('is recorded as speculative, and counts neither for nor against the requests under way', async () => {
  const on = await bench('');
  const { sink } = arrive(on, 'r1', 1, true);
  play(on, 0, 2);
  await settle();
  tokenize(on, 0, 0);
  await settle();
  const record = on.core.decisions?.list(10, {}).find(({ request_id: id }) => id === 'ahead-1');
  expect(record).toMatchObject({
    door: 'speculative',
    prompt: { tokens: 80 },
    session: { final: false },
  });
  expect(on.core.road.activeBookings()).toBe(1);
  // The session's next turn ends it before it is booked itself.
  let abortsWhenBooked = 0;
  const booked = (): void => {
    abortsWhenBooked = on.legs[1]?.aborts ?? 0;
  };
  on.speculative.arrive(turnOf('r2', 1), CHAT, false, { ...SILENT, booked });
  expect(abortsWhenBooked).toBe(1);
  expect(on.legs).toHaveLength(3);
  expect([...on.counts]).toEqual([
    ['sent', 1],
    ['cancelled', 1],
  ]);
  play(on, 2, 2);
  on.expectIdle();
  expect(sink.ended).toBe('finished');
});

it('leaves the answer as it is, and follows nobody who did not ask, or whose next turn will not repeat this one', async () => {
  const on = await bench('');
  const heard: string[] = [];
  const sink: ResponseSink = {
    booked: () => void heard.push('booked'),
    head: (status, headers) => void heard.push(`head ${status} ${Object.keys(headers).join(' ')}`),
    data: (bytes) => void heard.push(Buffer.from(bytes).toString()),
    tokens: (count) => void heard.push(`tokens ${count}`),
    finished: () => void heard.push('finished'),
    failed: () => void heard.push('failed'),
  };
  const session = { sessionId: 's', agentHeaders: {} };
  const request = turnOf('r', null, { session });
  on.speculative.arrive(request, CHAT, true, sink);
  play(on, 0, 2);
  expect(heard).toEqual(['booked', 'head 200 content-type', ANSWER.toString(), 'finished']);
  on.speculative.stop();
  await settle();
  const other = await bench('');
  for (const changes of [
    { session: null },
    { session: { ...session, sessionFinal: true } },
    { session: { ...session, compaction: true } },
    { tokensSource: 'estimate' as const },
  ]) {
    other.speculative.arrive({ ...request, ...changes }, CHAT, true, SILENT);
  }
  other.speculative.arrive(request, null, true, SILENT);
  other.speculative.arrive(request, CHAT, false, SILENT);
  expect(other.speculative.followed).toBe(0);
});
