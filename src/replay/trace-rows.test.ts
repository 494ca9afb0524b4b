import { expect, it } from 'vitest';
import { traceOfRows } from './trace-rows.ts';

const ROW = { timestamp: 0, input_length: 100, output_length: 1, hash_ids: [1] };

it('takes rows with the session of each request', () => {
  const child = { session_id: 'c', parent_session_id: 'p' };
  const trace = traceOfRows('t', [
    ROW,
    { ...ROW, session_id: 's' },
    { ...ROW, session_id: 's', session_context: child },
    { ...ROW, session_id: null, session_context: null },
  ]);
  expect([...trace.sessions]).toEqual([
    [1, { sessionId: 's', agentHeaders: {} }],
    [2, { sessionId: 'c', parentSessionId: 'p', agentHeaders: {} }],
  ]);
});

it.each([
  [
    { sessionId: 's' },
    't:2: a row has no field "sessionId" (did you mean "session_id"?); it may have timestamp, input_length, output_length, hash_ids, session_id, session_context',
  ],
  [
    { session_context: { session_id: 's', parent_id: 'p' } },
    't:2: session_context has no field "parent_id"; it may have session_id, parent_session_id, session_final, input_trigger, agent_headers',
  ],
  [{ session_context: 's' }, 't:2: session_context must be an object with a session_id'],
])('refuses a row with %j', (more, text) => {
  expect(() => traceOfRows('t', [ROW, { ...ROW, ...more }])).toThrow(text);
});

it('refuses an empty list', () => {
  expect(() => traceOfRows('t', [])).toThrow('a trace has at least one request');
});
