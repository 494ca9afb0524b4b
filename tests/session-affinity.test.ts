// Sessions that stay on their workers, from the client's headers to the simulated engines.
import { afterEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../src/config/index.ts';
import { renderDecision } from '../src/observe/index.ts';
import type { SessionContext } from '../src/plugin/index.ts';
import { NO_CONSTRAINTS } from '../src/road/index.ts';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';
import { dividedFleet } from './support/divided-fleet.ts';
import { countedTokens } from './support/road-request.ts';

const of = (sessionId: string): { session: SessionContext } => ({ session: { sessionId, agentHeaders: {} } });

describe('a model with prefill and decode workers', () => {
  it.each(['soft', 'hard'])('binds a session for each of the two, apart (%s)', async (mode) => {
    const {
      send,
      decisions,
      until: untilHeld,
      held,
      core,
    } = await dividedFleet({
      prefill: 3,
      decode: 3,
      yaml: `router: { session_affinity: { mode: ${mode} } }`,
    });
    const turn = (id: string, session: string, from: number) => {
      // Prompts of a session share nothing, so that nothing but the binding keeps them together.
      const heard = send(id, countedTokens(64, from), { maxOutputTokens: 4, ...of(session) });
      untilHeld(() => heard.ends === 1);
      expect(heard.error).toBeNull();
    };
    for (let round = 0; round < 4; round += 1) {
      for (const session of ['a', 'b', 'c']) {
        turn(`${session}${round}`, session, 10_000 * round + 1000 * session.charCodeAt(0));
      }
    }
    const placesOf = (session: string, role: string) =>
      new Set(
        decisions
          .filter((record) => record.request_id.startsWith(session) && record.role === role)
          .map(({ pick }) => pick.worker_id),
      );
    for (const session of ['a', 'b', 'c']) {
      const [prefill, decode] = [placesOf(session, 'prefill'), placesOf(session, 'decode')];
      expect([prefill.size, decode.size]).toEqual([1, 1]);
      for (const id of prefill) expect(id).toBeLessThanOrEqual(3n);
      for (const id of decode) expect(id).toBeGreaterThan(3n);
    }
    const outcomes = decisions.map(({ affinity }) => affinity?.outcome);
    expect(outcomes.filter((outcome) => outcome === 'initialised')).toHaveLength(6);
    expect(outcomes.filter((outcome) => outcome === (mode === 'hard' ? 'bound' : 'kept'))).toHaveLength(18);
    expect(held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
    await core.close();
  });

  it('is bound from the moment on that a reload says so, and no longer than it does', async () => {
    const { send, decisions, until: untilHeld, core } = await dividedFleet({ prefill: 1, decode: 2 });
    const bound = (id: string) => {
      const heard = send(id, countedTokens(64), of('s'));
      untilHeld(() => heard.ends === 1);
      return decisions.filter(({ request_id }) => request_id === id).map(({ affinity }) => affinity?.outcome);
    };
    const say = (mode: string): void =>
      core.reconfigure(parseConfig(`router: { session_affinity: { mode: ${mode} } }`, 'router.yaml').config);
    expect(bound('a')).toEqual([undefined, undefined]);
    say('soft');
    expect(bound('b')).toEqual(['initialised', 'initialised']);
    say('hard');
    expect(bound('c')).toEqual(['bound', 'bound']);
    say('off');
    expect(bound('d')).toEqual([undefined, undefined]);
  });

  it('goes on with its decode worker where a short prompt is computed there', async () => {
    const {
      send,
      decisions,
      until: untilHeld,
    } = await dividedFleet({
      prefill: 2,
      decode: 3,
      yaml: 'router: { session_affinity: { mode: hard }, conditional_disagg: true }',
    });
    for (let turn = 0; turn < 6; turn += 1) {
      const heard = send(`r${turn}`, countedTokens(64 * (turn + 1)), of('s'));
      const other = send(`o${turn}`, countedTokens(64, turn * 1000 + 500));
      untilHeld(() => heard.ends === 1 && other.ends === 1);
      expect(heard.error).toBeNull();
    }
    const own = decisions.filter((record) => record.request_id.startsWith('r'));
    expect(own.some(({ handoff }) => handoff?.local === 'short')).toBe(true);
    const decode = own.filter(({ role }) => role === 'decode').map(({ pick }) => pick.worker_id);
    expect(new Set(decode).size).toBe(1);
  });

  it('loses a session bound hard with the decode worker, and binds it to another', async () => {
    const {
      send,
      decisions,
      until: untilHeld,
      core,
    } = await dividedFleet({
      prefill: 1,
      decode: 2,
      yaml: 'router: { session_affinity: { mode: hard } }',
    });
    const run = (id: string) => {
      const heard = send(id, countedTokens(64), { ...of('s'), constraints: NO_CONSTRAINTS });
      untilHeld(() => heard.ends === 1);
      return heard;
    };
    run('first');
    const decodes = () => decisions.filter(({ role }) => role === 'decode').map(({ pick }) => pick.worker_id);
    const [bound = 0n] = decodes();
    core.fleet.setState(bound, 'draining');
    expect(run('second').error).toMatchObject({ code: 'PM_AFFINITY_UNAVAILABLE' });
    expect(run('third').error).toBeNull();
    expect(decodes()).toHaveLength(2);
    expect(decodes()[1]).not.toBe(bound);
  });
});

describe('over HTTP', () => {
  const stops: (() => void)[] = [];
  afterEach(() => {
    for (const stop of stops.splice(0)) stop();
  });

  it('the headers of clients bind sessions; what is no id binds nothing and reaches no group', async () => {
    const { engines: list } = await engines(3, '--speed', '20');
    const on = await router(
      routerYaml(
        list.map(({ url }) => url),
        'router: { mode: round-robin, session_affinity: { mode: hard } }',
      ),
    );
    const sdk = client(on.url);
    const ask = async (headers: Record<string, string>, seed: number) => {
      const { data, response } = await sdk.completions
        .create({ model: 'tiny', prompt: words(40, seed), max_tokens: 2 }, { headers })
        .withResponse();
      expect(data.choices).toHaveLength(1);
      const id = response.headers.get('x-request-id') ?? '';
      const record = on.core.decisions?.ofRequest(id)[0] ?? on.core.decisions?.list(1, {})[0];
      if (record === undefined) throw new Error('nothing was decided');
      return record;
    };
    const own = [];
    for (let turn = 0; turn < 4; turn += 1) own.push(await ask({ 'x-session-id': 'main' }, turn));
    expect(new Set(own.map(({ pick }) => pick.worker_id)).size).toBe(1);
    expect(own.map(({ affinity }) => affinity?.outcome)).toEqual(['initialised', 'bound', 'bound', 'bound']);
    const text = renderDecision(own.at(-1) ?? own[0]!);
    expect(text).toMatch(/^affinity hard: session bound to worker \d rank 0, the request had to go there$/m);

    const child = (id: string) => ({ 'x-dynamo-session-id': id, 'x-dynamo-parent-session-id': 'main' });
    const [x, y] = [await ask(child('x'), 11), await ask(child('y'), 12)];
    expect(y.pick.worker_id).toBe(x.pick.worker_id);
    expect(y.affinity?.outcome).toBe('bound');

    // Neither a final request nor ids that are none change that.
    await ask({ 'x-session-id': 'main', 'x-dynamo-session-final': 'true' }, 13);
    expect((await ask({ 'x-session-id': 'main' }, 14)).affinity?.outcome).toBe('bound');
    for (const id of ['', '   ', 'x'.repeat(257), '\u00e9', 'a\tb'])
      expect((await ask({ 'x-session-id': id }, 15)).affinity).toBeNull();
    await until('all bookings are free', () => on.core.road.activeBookings() === 0);
  });
});
