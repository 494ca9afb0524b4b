// The account of calls that do not run on the router's thread; that of the others is tested in containment.test.ts.
import { expect, test } from 'vitest';
import { createMetrics } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { PluginGuard } from './plugin-guard.ts';

const PLACE = { role: 'decode', part: 'hint', plugin: 'mine' } as const;

function guarded() {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const breaker = { failures: 2, overruns: 2, windowMs: 1000, skipMs: 100 };
  const settings = {
    softBudgetMs: 1,
    watchdogMs: 0,
    breaker,
    tripped: { classifier: 'pass-through' as const, workerSelection: 'default' as const },
  };
  const guard = new PluginGuard(PLACE, {
    settings,
    clock,
    wallMs: () => 0,
    running: null,
    metrics,
    log: NO_LOG,
  });
  return { clock, metrics, guard };
}

/** An admitted call that goes elsewhere; answers what its answer must be told with. */
function call(guard: PluginGuard): boolean {
  expect(guard.admits()).toBe(true);
  return guard.endLater(guard.begin());
}

test('failures in a thread trip the breaker; a probe that went well closes it', () => {
  const { clock, guard } = guarded();
  for (const outcome of ['ok', 'failed', 'failed'] as const) guard.settledLater(outcome, call(guard));
  expect(guard.status()).toMatchObject({ state: 'tripped', failures: 2, overruns: 0, trips: 1 });
  clock.advanceTo(100);
  const isProbe = call(guard);
  expect([isProbe, guard.admits()]).toEqual([true, false]);
  guard.settledLater('ok', isProbe);
  expect(guard.status()).toMatchObject({ state: 'ok', failures: 2, skips: 1 });
});

test('a call that came to nothing by the fault of another is no failure, but a probe has to be made again', () => {
  const { clock, guard } = guarded();
  for (let calls = 0; calls < 5; calls += 1) guard.settledLater('none', call(guard));
  expect(guard.status()).toMatchObject({ state: 'ok', failures: 0 });
  for (let calls = 0; calls < 2; calls += 1) guard.settledLater('failed', call(guard));
  clock.advanceTo(100);
  guard.settledLater('none', call(guard));
  expect(guard.status()).toMatchObject({ state: 'tripped', failures: 2, trips: 1 });
  expect(call(guard)).toBe(true);
});

test('calls that are not made for want of a thread are counted with the other skips', async () => {
  const { guard, metrics } = guarded();
  guard.skip();
  expect(guard.status().skips).toBe(1);
  expect(await metrics.text()).toContain(
    'pointsman_plugin_skips_total{plugin="mine",role="decode",part="hint"} 1',
  );
});
