// Workers that die while requests prefill: clients get their answers from the others.
import { expect, it } from 'vitest';
import { engines, router, routerYaml, until, words } from './live-support.ts';

it('answers from other workers what a worker killed during prefill had not begun to answer', async () => {
  // At a thousandth of the modelled speed a prompt takes minutes: what gets there is there when the engine is killed.
  const doomed = await engines(1, '--speed', '0.001');
  // Slow enough to be busy while all arrive, also on a slow machine: an idle one would be taken before the doomed one.
  const others = await engines(2, '--speed', '0.5');
  const urls = [...doomed.engines, ...others.engines].map(({ url }) => url);
  const on = await router(routerYaml(urls), 3_600_000);
  const send = async (seed: number) => {
    const answer = await fetch(`${on.url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({
        model: 'tiny',
        prompt: words(200, seed),
        max_tokens: 4,
        stream: seed % 2 === 0,
      }),
    });
    const text = await answer.text();
    return { status: answer.status, worker: answer.headers.get('x-pointsman-worker'), text };
  };
  const sent = Array.from({ length: 18 }, (_, seed) => send(seed));
  const waiting = (): number => on.core.scheduler.requestsOn(on.core.fleet.worker(1n)?.slots[0] ?? -1);
  await until('the others have answered', () => {
    return (
      on.core.road.activeBookings() === waiting() && waiting() >= 2 && (on.core.decisions?.size ?? 0) >= 18
    );
  });
  const caught = waiting();
  doomed.kill();
  const answers = await Promise.all(sent);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(new Set(answers.map(({ worker }) => worker))).toEqual(new Set(['2:0', '3:0']));
  answers.forEach(({ text }, seed) => {
    if (seed % 2 === 0) expect(text).toMatch(/data: \[DONE\]\n\n$/);
    else expect(JSON.parse(text)).toMatchObject({ usage: { completion_tokens: 4 } });
  });
  expect(on.core.road.activeBookings()).toBe(0);
  const metrics = await on.metrics.text();
  const answered = /^pointsman_retries_total\{[^}]*outcome="answered"[^}]*\} (\d+)$/gm;
  const retried = [...metrics.matchAll(answered)].reduce((sum, [, count]) => sum + Number(count), 0);
  expect(retried).toBe(caught);
});
