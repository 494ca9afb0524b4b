import { expect, it } from 'vitest';
import { sessionOfLine } from './trace-session.ts';

const read = (row: Readonly<Record<string, unknown>>) => sessionOfLine(row, (text) => new Error(text));

it('a line names its session by id, or whole, or not at all', () => {
  expect(read({})).toBeNull();
  expect(read({ session_id: null, session_context: null })).toBeNull();
  expect(read({ session_id: 's' })).toEqual({ sessionId: 's', agentHeaders: {} });
  const whole = read({
    session_id: 'ignored',
    session_context: {
      session_id: 's',
      parent_session_id: 'p',
      session_final: false,
      input_trigger: 'tool_result',
      agent_headers: { 'X-Codex-Turn': ['a', ''] },
    },
  });
  expect(whole).toEqual({
    sessionId: 's',
    parentSessionId: 'p',
    sessionFinal: false,
    inputTrigger: 'tool_result',
    agentHeaders: { 'x-codex-turn': ['a', ''] },
  });
  expect([whole, whole?.agentHeaders].every(Object.isFrozen)).toBe(true);
});

it.each([
  [{ session_id: 7 }, 'session_id must be a text of 1 to 256 characters'],
  [{ session_context: 's' }, 'session_context must be an object with a session_id'],
  [{ session_context: {} }, 'session_context.session_id must be a text of 1 to 256 characters'],
  [
    { session_context: { session_id: 's', parent_session_id: '' } },
    'session_context.parent_session_id must be a text of 1 to 256 characters',
  ],
  [
    { session_context: { session_id: 's', session_final: 'yes' } },
    'session_context.session_final must be true or false',
  ],
  [
    { session_context: { session_id: 's', input_trigger: 1 } },
    'session_context.input_trigger must be a text',
  ],
  [
    { session_context: { session_id: 's', agent_headers: { a: 'b' } } },
    'session_context.agent_headers.a must be a list of texts',
  ],
])('%j is refused', (row, text) => {
  expect(() => read(row)).toThrow(text);
});
