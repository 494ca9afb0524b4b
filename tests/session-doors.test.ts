// The session of a request, on its way through every door to a hint policy.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { readTrace } from '../src/replay/index.ts';
import { recordingRelay, routerYaml, serve, simulators, stopAll } from './support/live-processes.ts';
import { replayInProcess } from './support/replay-in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-sessions-'));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(stopAll);

/** Sends what it was told of the session to the engine, and to whoever listens in this process. */
const TELL = `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'tell',
  create: () => ({
    buildHints({ session }) {
      globalThis[Symbol.for('pointsman-test-sessions')]?.push(session);
      return [{ type: 'acme.session', version: '1.0', payload: { session: session && { ...session } } }];
    },
  }),
});
`;

const HEADERS = {
  'content-type': 'application/json',
  'x-dynamo-session-id': 'child',
  'x-dynamo-parent-session-id': 'parent',
  'x-dynamo-session-final': 'true',
  'x-claude-code-prompt-id': 'p-1',
  authorization: 'Bearer secret',
};

it('the session of a request reaches buildHints through chat and completions of the gateway', async () => {
  const { engines } = await simulators(1, '--no-action-set');
  const relay = await recordingRelay(engines[0]!.url);
  const policies = 'plugins: [./tell.ts]\nworker_selection: { aggregated: { hints: [{ type: tell }] } }';
  const { url } = await serve({ 'tell.ts': TELL, 'router.yaml': routerYaml([relay], policies) });
  const send = async (path: string, body: object): Promise<unknown> => {
    const answer = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: HEADERS,
      body: JSON.stringify({ model: 'tiny', max_tokens: 1, ...body }),
    });
    expect(answer.status).toBe(200);
    await answer.text();
    const sent = JSON.parse(relay.bodies.at(-1) ?? '{}') as {
      kv_transfer_params?: { kv_hint: { actions: { payload: { session: unknown } }[] } };
    };
    return sent.kv_transfer_params?.kv_hint.actions[0]?.payload.session;
  };
  const told = {
    sessionId: 'child',
    parentSessionId: 'parent',
    sessionFinal: true,
    agentHeaders: { 'x-claude-code-prompt-id': ['p-1'] },
  };
  expect(await send('/v1/completions', { prompt: 'Hello town' })).toEqual(told);
  const message = (role: string) => ({ messages: [{ role, content: 'Hello town', tool_call_id: 't' }] });
  expect(await send('/v1/chat/completions', message('user'))).toEqual({
    ...told,
    inputTrigger: 'user_message',
  });
  expect(await send('/v1/chat/completions', message('tool'))).toEqual({
    ...told,
    inputTrigger: 'tool_result',
  });
});

it('the session of a trace line reaches buildHints through replay', async () => {
  const seen: unknown[] = [];
  Reflect.set(globalThis, Symbol.for('pointsman-test-sessions'), seen);
  const line = (at: number, more: object) =>
    JSON.stringify({ timestamp: at, input_length: 512, output_length: 1, hash_ids: [at], ...more });
  const context = {
    session_id: 'child',
    parent_session_id: 'parent',
    session_final: true,
    input_trigger: 'tool_result',
    agent_headers: { 'x-claude-code-prompt-id': ['p-1'] },
  };
  const lines = [line(0, {}), line(1, { session_id: 'alone' }), line(2, { session_context: context })];
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  write('tell.ts', TELL);
  const policy = write(
    'tell.yaml',
    'plugins: [./tell.ts]\nworker_selection: { aggregated: { hints: [{ type: tell }] } }\n',
  );
  const trace = await readTrace(write('trace.jsonl', `${lines.join('\n')}\n`));
  const { runs } = await replayInProcess(trace, { compare: policy, workers: 1 });
  Reflect.deleteProperty(globalThis, Symbol.for('pointsman-test-sessions'));
  expect(runs[0]?.completed).toBe(3);
  expect(seen).toEqual([
    null,
    { sessionId: 'alone', agentHeaders: {} },
    {
      sessionId: 'child',
      parentSessionId: 'parent',
      sessionFinal: true,
      inputTrigger: 'tool_result',
      agentHeaders: { 'x-claude-code-prompt-id': ['p-1'] },
    },
  ]);
});
