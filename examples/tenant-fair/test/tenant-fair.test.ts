// Run with: npm test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkClassifier, testClassifier } from 'pointsman/testing';
import { tenantFair } from '../src/tenant-fair.ts';

const parameters = { tokens_per_second: 1000, burst_tokens: 2000, max_wait_seconds: 3 };
const of = (tenant: string) => ({ sessionId: tenant, agentHeaders: {} });

test('the greedy tenant waits for its share; the other goes on', async () => {
  const trial = await testClassifier(tenantFair, { parameters });
  const greedy = [1, 2, 3].map(() => trial.send({ session: of('greedy'), inputTokens: 1000 }));
  const modest = trial.send({ session: of('modest'), inputTokens: 1000 });
  assert.deepEqual(
    [...greedy, modest].map(({ state }) => state),
    ['classified', 'classified', 'waiting', 'classified'],
  );
  await trial.advance(999);
  assert.equal(greedy[2]?.state, 'waiting');
  await trial.advance(1);
  assert.equal(greedy[2]?.state, 'classified');
  await trial.close();
});

test('who would wait too long is told when to come back', async () => {
  const trial = await testClassifier(tenantFair, { parameters });
  const states = Array.from({ length: 7 }, () => trial.send({ session: of('greedy'), inputTokens: 1000 }));
  assert.deepEqual(
    states.map(({ state }) => state),
    [...Array(2).fill('classified'), ...Array(3).fill('waiting'), ...Array(2).fill('refused')],
  );
  assert.equal(states[5]?.refusal?.details.retry_after, '1');
  await trial.advance(1000);
  assert.equal(trial.send({ session: of('greedy'), inputTokens: 1000 }).state, 'waiting');
  await trial.close();
});

test('a client that leaves gives its share back', async () => {
  const trial = await testClassifier(tenantFair, { parameters });
  const send = () => trial.send({ session: of('a'), inputTokens: 1000 });
  const sent = Array.from({ length: 5 }, send);
  assert.equal(send().state, 'refused');
  sent[4]?.abort();
  assert.equal(send().state, 'waiting');
  await trial.advance(3000);
  assert.deepEqual(
    sent.map(({ state }) => state),
    [...Array(4).fill('classified'), 'left'],
  );
  await trial.close();
});

test('the tenant may be named by a header, and a long prompt counts as one burst', async () => {
  const header = (tenant: string, sessionId: string) => ({
    sessionId,
    agentHeaders: { 'x-codex-tenant': [tenant] },
  });
  const trial = await testClassifier(tenantFair, {
    parameters: { ...parameters, tenant_header: 'X-Codex-Tenant' },
  });
  const child = { sessionId: 's4', parentSessionId: 's1', agentHeaders: {} };
  const states = [
    trial.send({ session: header('a', 's1'), inputTokens: 100_000 }),
    trial.send({ session: header('a', 's2'), inputTokens: 1000 }),
    trial.send({ session: header('b', 's3'), inputTokens: 1000 }),
    trial.send({ session: null, inputTokens: 2000 }),
    trial.send({ session: child, inputTokens: 1000 }),
  ].map(({ state }) => state);
  assert.deepEqual(states, ['classified', 'waiting', 'classified', 'classified', 'waiting']);
  await trial.close();
});

test('a session and those it started are one tenant, where no header names another', async () => {
  const trial = await testClassifier(tenantFair, { parameters });
  const child = { ...of('child'), parentSessionId: 'root' };
  const states = [of('root'), child, child].map(
    (session) => trial.send({ session, inputTokens: 1000 }).state,
  );
  assert.deepEqual(states, ['classified', 'classified', 'waiting']);
  await trial.close();
});

test('keeps what a router expects of a classifier', async () => {
  assert.deepEqual(await checkClassifier(tenantFair, { parameters: { tokens_per_second: 20_000 } }), []);
});
