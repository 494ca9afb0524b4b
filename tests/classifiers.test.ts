// Request classifiers through the doors: refusals and waits at a live gateway, virtual time in a replay, what check shows.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { runCli } from '../src/cli/run.ts';
import { engines, router, routerYaml, until } from './live-support.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-classifiers-'));
afterAll(() => rmSync(folder, { recursive: true }));

const plugin = join(folder, 'by-session.ts');
writeFileSync(
  plugin,
  `import { CapacityExhausted, defineRequestClassifier, RateLimited } from 'pointsman/plugin';
export default defineRequestClassifier({
  type: 'by_session',
  create: ({ clock }) => {
    const heard = (globalThis.classifierHeard ??= []);
    return {
      classify({ requestId, session }) {
        switch (session?.sessionId) {
          case 'greedy': throw new RateLimited(2.5, 'the session is over its share');
          case 'crowded': throw new CapacityExhausted();
          case 'broken': throw new Error('a secret of the plugin');
          case 'wrong': return { policyClass: 'vip' };
          case 'patient': return new Promise((resolve) => clock.schedule(50, () => resolve({ schedulingCostTokens: 7 })));
          case 'endless': return new Promise(() => undefined);
        }
      },
      onEvent: ({ kind, requestId }) => void heard.push(kind),
    };
  },
});
`,
);
const heard = (): readonly string[] => Reflect.get(globalThis, 'classifierHeard') ?? [];

async function live(extra = '') {
  const { engines: list } = await engines(1, '--speed', '20');
  const on = await router(
    routerYaml(
      list.map(({ url }) => url),
      `plugins: ["${plugin}"]\nrequest_classifier: { type: by_session, max_wait: 30s }\n${extra}`,
    ),
  );
  const ask = (session: string, signal?: AbortSignal) =>
    fetch(`${on.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-dynamo-session-id': session },
      body: JSON.stringify({ model: 'tiny', prompt: 'on and on', max_tokens: 4 }),
      ...(signal === undefined ? {} : { signal }),
    });
  return { on, ask };
}

describe('at a live gateway', () => {
  it('refusals carry their status, Retry-After and text; failures carry a text of the router', async () => {
    const { on, ask } = await live('limits: { overload_status: 529 }\n');
    const answers: Record<string, unknown> = {};
    for (const session of ['greedy', 'crowded', 'broken', 'wrong', 'plain']) {
      const answer = await ask(session);
      const body = (await answer.json()) as { error?: unknown };
      answers[session] = [answer.status, answer.headers.get('retry-after'), body.error ?? 'served'];
    }
    const failed = 'the request classifier failed, so the request was not routed; send it again';
    expect(answers).toEqual({
      greedy: [
        429,
        '3',
        {
          message: 'the session is over its share',
          type: 'rate_limit_error',
          param: null,
          code: 'PM_CLASSIFIER_RATE_LIMITED',
        },
      ],
      crowded: [
        529,
        '1',
        {
          message: 'there is no room for this request now; send it again later',
          type: 'rate_limit_error',
          param: null,
          code: 'PM_CLASSIFIER_CAPACITY',
        },
      ],
      broken: [
        500,
        null,
        { message: failed, type: 'server_error', param: null, code: 'PM_CLASSIFIER_THREW' },
      ],
      wrong: [
        500,
        null,
        { message: failed, type: 'server_error', param: null, code: 'PM_CLASSIFIER_INVALID' },
      ],
      plain: [200, null, 'served'],
    });
    const metrics = await (await fetch(`${on.adminUrl}/metrics`)).text();
    for (const line of [
      'pointsman_classifications_total{classifier="by_session",result="refused",code="PM_CLASSIFIER_RATE_LIMITED"} 1',
      'pointsman_classifications_total{classifier="by_session",result="failed",code="PM_CLASSIFIER_INVALID"} 1',
      'pointsman_classifications_total{classifier="by_session",result="classified",code=""} 1',
      'pointsman_classifications_waiting 0',
    ]) {
      expect(metrics).toContain(line);
    }
    const plugins = (await (await fetch(`${on.adminUrl}/plugins`)).json()) as { roles: readonly object[] };
    expect(plugins.roles.at(-1)).toMatchObject({
      role: null,
      classifier: { type: 'by_session' },
      containment: [{ part: 'classifier', plugin: 'by_session', state: 'ok', failures: 2 }],
    });
  });

  it('a client that leaves while it waits is never booked, and others are served meanwhile', async () => {
    const { on, ask } = await live();
    const before = heard().length;
    const leaving = new AbortController();
    const left = ask('endless', leaving.signal).then(
      () => 'answered',
      () => 'left',
    );
    await until('it waits', () => on.core.road.unsettled());
    const patient = await ask('patient');
    expect(patient.status).toBe(200);
    const [record] = on.core.decisions?.list(1, {}) ?? [];
    expect(record?.classification).toMatchObject({
      classifier: 'by_session',
      result: 'classified',
      overrides: { scheduling_cost_tokens: 7 },
    });
    expect(record?.classification?.waited_ms).toBeGreaterThanOrEqual(49);
    leaving.abort();
    expect(await left).toBe('left');
    await until('nobody waits', () => !on.core.road.unsettled());
    expect(on.core.decisions?.list(10, {})).toHaveLength(1);
    expect(heard().slice(before)).toEqual(['sent', 'responding', 'completed', 'aborted']);
    expect(on.core.road.activeBookings()).toBe(0);
  });

  it('a stop refuses who still waits', async () => {
    const { on, ask } = await live();
    const waiting = ask('endless');
    await until('it waits', () => on.core.road.unsettled());
    await on.stop(0);
    const answer = await waiting;
    expect(answer.status).toBe(503);
    const { error } = (await answer.json()) as { error: { code: string } };
    expect(error.code).toBe('PM_SHUTTING_DOWN');
  });
});

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const printed = { out: '', err: '' };
  const code = await runCli(args, {
    out: (text) => {
      printed.out += text;
    },
    err: (text) => {
      printed.err += text;
    },
    env: {},
    fancy: false,
    exit: () => {},
  });
  return { code, ...printed };
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('in a replay', () => {
  const trace = fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url));
  file(
    'one-by-one.ts',
    `import { defineRequestClassifier } from 'pointsman/plugin';
/** At most \`most\` requests at once; the others wait for an end, in order. */
export default defineRequestClassifier({
  type: 'one_by_one',
  create: ({ clock, rng }) => {
    const waiting = [];
    let running = 0;
    const next = async () => {
      await null;
      if (running >= 2 || waiting.length === 0) return;
      running += 1;
      waiting.shift()();
    };
    return {
      async classify() {
        const turn = new Promise((resolve) => waiting.push(resolve));
        void next();
        await turn;
        await new Promise((resolve) => clock.schedule(rng.next() * 10, resolve));
        return { schedulingCostTokens: 1 };
      },
      async onEvent({ kind }) {
        await null;
        if (kind !== 'completed' && kind !== 'aborted') return;
        running -= 1;
        await next();
      },
    };
  },
});
`,
  );
  const policy = file(
    'one-by-one.yaml',
    'plugins: [./one-by-one.ts]\nrequest_classifier: { type: one_by_one, max_wait: 1h }\n',
  );
  const options = ['--workers', '2', '--block-size', '512', '--kv-blocks', '400', '--json', '--seed', '3'];
  const replay = async (compare: string) => {
    const { code, out, err } = await run('replay', trace, '--limit', '60', '--compare', compare, ...options);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  };

  it('an asynchronous classifier waits in virtual time, and two runs are the same', async () => {
    const [first, second, plain] = [await replay(policy), await replay(policy), await replay('kv')];
    expect(first.runs).toEqual(second.runs);
    expect(first.runs[0]).toMatchObject({ completed: 60, failed: 0, policy_faults: [] });
    expect(first.runs[0].e2e_ms.mean).toBeGreaterThan(plain.runs[0].e2e_ms.mean);
  });

  it('one that fails is counted among the faults', async () => {
    file(
      'failing.ts',
      `import { defineRequestClassifier } from 'pointsman/plugin';
export default defineRequestClassifier({ type: 'failing', create: () => ({ classify() { throw new Error('no'); } }) });
`,
    );
    const failing = file('failing.yaml', 'plugins: [./failing.ts]\nrequest_classifier: failing\n');
    const { code, out } = await run('replay', trace, '--limit', '8', '--compare', failing, ...options);
    expect(code).toBe(0);
    const [report] = JSON.parse(out).runs;
    expect(report.failed).toBe(5);
    expect(report.policy_faults).toEqual([
      { policy: 'failing', lost: 'classification', reason: 'PM_CLASSIFIER_THREW', count: 5 },
      { policy: 'failing', lost: 'classification', reason: 'tripped', count: 3 },
    ]);
  });
});

describe('check', () => {
  it('shows the classifier', async () => {
    const yaml = file('fine.yaml', `plugins: ["${plugin}"]\nrequest_classifier: by_session\n`);
    const shown = await run('check', yaml);
    expect(shown.code).toBe(0);
    expect(shown.out).toMatch(/^request classifier: by_session [0-9a-f]+$/m);
    const { out } = await run('check', yaml, '--json');
    expect(JSON.parse(out).request_classifier).toEqual({
      type: 'by_session',
      version: expect.any(String),
      max_wait_ms: 60_000,
    });
  });

  it('shows what is wrong with it and where', async () => {
    const yaml = file('wrong.yaml', `plugins: ["${plugin}"]\nrequest_classifier: { type: by_sesion }\n`);
    const { code, err } = await run('check', yaml);
    expect(code).toBe(2);
    expect(err).toContain(
      'wrong.yaml:2:29: request_classifier.type: unknown request classifier "by_sesion"; known: pass-through, by_session (did you mean "by_session"?)',
    );
  });
});
