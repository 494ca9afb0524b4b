// A request classifier with a thread of its own in the built program: its refusals, its waits, and what an endless loop costs.
import { afterEach, describe, expect, it } from 'vitest';
import {
  eventually,
  metric,
  routerYaml,
  type Serving,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterEach(stopAll);

const CLASSIFIER = `import { isMainThread } from 'node:worker_threads';
import { CapacityExhausted, defineRequestClassifier, RateLimited } from 'pointsman/plugin';
export default defineRequestClassifier({
  type: 'by_session',
  isolation: 'thread',
  create: () => {
    let open = () => {};
    return {
      classify({ session }) {
        switch (session?.sessionId) {
          case 'greedy': throw new RateLimited(2.5, isMainThread ? 'from the router' : 'from a thread');
          case 'crowded': throw new CapacityExhausted();
          case 'broken': throw new Error('a secret of the plugin');
          case 'loops': for (;;);
          case 'waits': return new Promise((resolve) => { open = () => resolve({ schedulingCostTokens: 7 }); });
          case 'opens': open();
        }
        return undefined;
      },
    };
  },
});
`;

async function start(more: string): Promise<Serving> {
  const { engines } = await simulators(1);
  const yaml = routerYaml(
    engines.map(({ url }) => ({ url })),
    `plugins: [./by-session.ts]\nrequest_classifier: { type: by_session${more} }\nlimits: { overload_status: 529 }`,
  );
  return serve({ 'by-session.ts': CLASSIFIER, 'router.yaml': yaml });
}

async function ask({ url }: Serving, session: string) {
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-dynamo-session-id': session },
    body: JSON.stringify({ model: 'tiny', prompt: 'on and on', max_tokens: 2 }),
  });
  const { error } = (await answer.json()) as { error?: { code: string; message: string } };
  return {
    status: answer.status,
    retryAfter: answer.headers.get('retry-after'),
    code: error?.code ?? null,
    message: error?.message ?? null,
  };
}

const SERVED = { status: 200, retryAfter: null, code: null, message: null };
/** Classifications that are waited for. */
const WAITING = 'pointsman_classifications_waiting';

describe('a classifier in a thread', () => {
  it('refuses with status and Retry-After, and lets requests wait while others are served', async () => {
    const router = await start(', deadline: 20s');
    expect(await ask(router, 'greedy')).toEqual({
      status: 429,
      retryAfter: '3',
      code: 'PM_CLASSIFIER_RATE_LIMITED',
      message: 'from a thread',
    });
    expect(await ask(router, 'crowded')).toMatchObject({
      status: 529,
      retryAfter: '1',
      code: 'PM_CLASSIFIER_CAPACITY',
    });
    const broken = await ask(router, 'broken');
    expect(broken).toMatchObject({ status: 500, code: 'PM_CLASSIFIER_THREW' });
    expect(broken.message).not.toContain('secret');

    let answered = false;
    const waits = ask(router, 'waits').finally(() => {
      answered = true;
    });
    await eventually('it waits', async () =>
      (await metric(router.admin, WAITING)) === 1 ? true : undefined,
    );
    expect(await ask(router, 'plain')).toEqual(SERVED);
    expect(answered).toBe(false);
    expect(await ask(router, 'opens')).toEqual(SERVED);
    expect(await waits).toEqual(SERVED);
  });

  it('that loops for ever costs its own request, and the others are served', async () => {
    const router = await start(', deadline: 5s, max_wait: 10m');
    const waits = ask(router, 'waits');
    await eventually('it waits', async () =>
      (await metric(router.admin, WAITING)) === 1 ? true : undefined,
    );
    // What was served shows that the thread had taken whatever came before.
    expect(await ask(router, 'plain')).toEqual(SERVED);
    const loops = ask(router, 'loops');
    await eventually('it loops', async () => ((await metric(router.admin, WAITING)) > 1 ? true : undefined));
    const behind = await ask(router, 'plain');
    expect([await loops, behind, await waits]).toEqual([
      expect.objectContaining({ status: 503, code: 'PM_CLASSIFIER_TIMEOUT' }),
      SERVED,
      SERVED,
    ]);
    const lost = 'pointsman_plugin_threads_lost_total{plugin="by_session",reason="timed_out"}';
    expect(await metric(router.admin, lost)).toBe(1);
    await eventually('the next thread answers', async () =>
      (await ask(router, 'greedy')).message === 'from a thread' ? true : undefined,
    );
  });
});
