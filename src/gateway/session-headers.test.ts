// Which header names a session, its parent and its compaction, agent by agent, and which goes before which.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DistinctHeaders } from '../road/index.ts';
import { readBodySessionId, readSession } from './session-headers.ts';

const CANONICAL = { 'x-dynamo-session-id': ['own'], 'x-dynamo-parent-session-id': ['own-parent'] };
const CLAUDE = { 'x-claude-code-session-id': ['root'] };
const CLAUDE_CHILD = { ...CLAUDE, 'x-claude-code-agent-id': ['agent'] };
const CODEX = { 'thread-id': ['thread'], 'x-codex-parent-thread-id': ['thread-parent'] };
const DEEPSEEK = {
  'x-deepseek-harness-session-id': ['deep'],
  'x-deepseek-harness-parent-session-id': ['deep-parent'],
};
const OPENCODE = { 'x-session-id': ['open'], 'x-parent-session-id': ['open-parent'] };
const PARENT_OF_ROOT = { 'x-claude-code-parent-agent-id': ['parent-agent'] };

/** Id and parent, as `child < parent`. */
function identity(headers: DistinctHeaders): string | null {
  const session = readSession(headers, null);
  if (session === null) return null;
  return session.parentSessionId === undefined
    ? session.sessionId
    : `${session.sessionId} < ${session.parentSessionId}`;
}

describe('the identity of a session', () => {
  it.each<[string, DistinctHeaders, string]>([
    ['the router’s own headers', CANONICAL, 'own < own-parent'],
    ['Claude Code, at the root', CLAUDE, 'root'],
    ['Claude Code, at the root with a parent', { ...CLAUDE, ...PARENT_OF_ROOT }, 'root'],
    ['Claude Code, an agent', CLAUDE_CHILD, 'agent < root'],
    ['Claude Code, an agent of an agent', { ...CLAUDE_CHILD, ...PARENT_OF_ROOT }, 'agent < parent-agent'],
    ['Codex', CODEX, 'thread < thread-parent'],
    ['DeepSeek’s harness', DEEPSEEK, 'deep < deep-parent'],
    ['OpenCode', OPENCODE, 'open < open-parent'],
    ['a client of vLLM', { 'x-session-id': ['plain'] }, 'plain'],
  ])('is read from %s', (_, headers, expected) => {
    expect(identity(headers)).toBe(expected);
  });

  it('is the first of: own headers, Claude Code, Codex, DeepSeek, x-session-id', () => {
    const rows = [CANONICAL, CLAUDE_CHILD, CODEX, DEEPSEEK, OPENCODE];
    const found = rows.map((_, at) => identity(Object.assign({}, ...rows.slice(at))));
    expect(found).toEqual([
      'own < own-parent',
      'agent < root',
      'thread < thread-parent',
      'deep < deep-parent',
      'open < open-parent',
    ]);
  });

  it('is never one that begins with a control character, as those of groups do', () => {
    const forged = `\u0001sg:${'0'.repeat(64)}`;
    for (const id of [forged, `${forged} `, ` ${forged}`, '\u0001', 'a\u0001'])
      for (const row of [CANONICAL, CLAUDE_CHILD, CODEX, DEEPSEEK, OPENCODE]) {
        const headers = Object.fromEntries(Object.keys(row).map((name) => [name, [id]]));
        expect(readSession(headers, null)).toBeNull();
      }
    expect(identity({ 'x-session-id': ['plain'], 'x-parent-session-id': [forged] })).toBe('plain');
  });

  it('takes no parent from another row than the id', () => {
    expect(identity({ 'x-dynamo-session-id': ['own'], ...OPENCODE })).toBe('own');
    expect(identity({ 'thread-id': ['thread'], ...CANONICAL, 'x-dynamo-session-id': [' '] })).toBe('thread');
  });

  it.each<[DistinctHeaders]>([
    [{ 'x-claude-code-agent-id': ['agent'], ...PARENT_OF_ROOT }],
    [{ 'session-id': ['s'] }],
    [{ 'x-dynamo-parent-session-id': ['p'], 'x-parent-session-id': ['p'] }],
    [{ 'x-codex-parent-thread-id': ['p'], 'x-dynamo-session-final': ['true'] }],
    [{ 'x-session-id': ['caf\u00e9'] }],
    [{ 'x-session-id': ['  '] }],
    [{ 'x-session-id': ['x'.repeat(257)] }],
    [{ 'x-session-id': [] }],
    [{}],
  ])('is none for %j', (headers) => {
    expect(readSession(headers, 'user')).toBeNull();
  });

  it('goes on to the next row when a value is not usable', () => {
    for (const unusable of ['', ' ', '\u00e9', 'x'.repeat(257)]) {
      const headers = { 'x-dynamo-session-id': [unusable], 'thread-id': [unusable], 'x-session-id': ['s'] };
      expect(identity(headers)).toBe('s');
      expect(identity({ ...CLAUDE, 'x-claude-code-agent-id': [unusable] })).toBe('root');
      expect(identity({ ...CLAUDE_CHILD, 'x-claude-code-parent-agent-id': [unusable] })).toBe('agent < root');
      expect(identity({ 'thread-id': ['t'], 'x-codex-parent-thread-id': [unusable] })).toBe('t');
    }
    expect(identity({ 'x-session-id': ['x'.repeat(256)] })).toBe('x'.repeat(256));
  });

  it('has no parent that is the session itself', () => {
    expect(identity({ 'thread-id': ['t'], 'x-codex-parent-thread-id': [' t '] })).toBe('t');
    expect(identity({ 'x-session-id': ['t'], 'x-parent-session-id': ['t'] })).toBe('t');
    expect(identity({ ...CLAUDE, 'x-claude-code-agent-id': ['root'] })).toBe('root');
  });

  it('is the first value of a header that was sent several times; all are captured', () => {
    const session = readSession({ 'thread-id': [' a ', 'b'] }, null);
    expect(session).toEqual({ sessionId: 'a', agentHeaders: { 'thread-id': [' a ', 'b'] } });
    expect(readSession({ 'thread-id': [' ', 'b'] }, null)).toBeNull();
  });

  it('brings agent headers along whatever it was read from', () => {
    expect(readSession({ ...CANONICAL, ...CODEX }, null)?.agentHeaders).toEqual(CODEX);
    expect(readSession(DEEPSEEK, null)?.agentHeaders).toEqual({});
  });

  it.each([CANONICAL, CLAUDE, CODEX, DEEPSEEK, OPENCODE])('may end with any id: %j', (headers) => {
    expect(readSession({ ...headers, 'x-dynamo-session-final': ['1'] }, null)?.sessionFinal).toBe(true);
    expect(readSession({ ...headers, 'x-dynamo-session-final': ['False'] }, null)?.sessionFinal).toBe(false);
    expect(readSession({ ...headers, 'x-dynamo-session-final': ['no'] }, null)).not.toHaveProperty(
      'sessionFinal',
    );
  });
});

describe('an id in the body', () => {
  const BODY = { session_id: ' s ', prompt_cache_key: 'k', previous_response_id: 'r' };

  it('is that of the first usable member that is listed', () => {
    expect(readBodySessionId(BODY, [])).toBeNull();
    expect(readBodySessionId(BODY, ['session_id', 'prompt_cache_key'])).toBe('s');
    expect(readBodySessionId(BODY, ['previous_response_id', 'session_id'])).toBe('r');
    for (const unusable of ['', ' ', 'caf\u00e9', '\u0001sg:x', 'x'.repeat(257), 7, null, { id: 's' }]) {
      const body = { ...BODY, session_id: unusable };
      expect(readBodySessionId(body, ['session_id', 'prompt_cache_key'])).toBe('k');
      expect(readBodySessionId(body, ['session_id'])).toBeNull();
    }
    const longest = 'x'.repeat(256);
    expect(readBodySessionId({ session_id: longest }, ['session_id'])).toBe(longest);
  });

  it('names a session where no header does, and then has no parent', () => {
    expect(readSession({ 'x-parent-session-id': ['p'] }, 'user', 'body')).toEqual({
      sessionId: 'body',
      inputTrigger: 'user_message',
      agentHeaders: { 'x-parent-session-id': ['p'] },
    });
    expect(readSession({ 'x-dynamo-session-final': ['1'] }, null, 'body')?.sessionFinal).toBe(true);
    expect(readSession({ 'x-session-id': ['header'] }, null, 'body')?.sessionId).toBe('header');
    expect(readSession({ 'x-session-id': ['caf\u00e9'] }, null, 'body')?.sessionId).toBe('body');
  });
});

describe('a compaction', () => {
  const metadata = (text: string) => ({ 'x-codex-turn-metadata': [text] });
  const yes = metadata('{"request_kind": "compaction", "compaction": {"reason": "auto"}}');

  it.each<[DistinctHeaders, true | undefined]>([
    [{ ...CODEX, ...yes }, true],
    [{ ...CANONICAL, ...yes }, undefined],
    [{ ...CANONICAL, ...CODEX, ...yes }, true],
    [{ ...CLAUDE, ...yes }, undefined],
    [{ ...CODEX, ...metadata('{"request_kind": "turn", "compaction": {}}') }, undefined],
    [{ ...CODEX, ...metadata('{"kind": "compaction"}') }, undefined],
    [{ ...CODEX, ...metadata('"compaction"') }, undefined],
    [{ ...CODEX, ...metadata('{"request_kind": "compaction"') }, undefined],
    [{ ...CODEX, ...metadata('null "compaction"') }, undefined],
    [{ ...DEEPSEEK, 'x-deepseek-harness-compact': ['1'] }, true],
    [{ ...CANONICAL, ...DEEPSEEK, 'x-deepseek-harness-compact': ['1'] }, true],
    [{ ...DEEPSEEK, 'x-deepseek-harness-compact': ['0'] }, undefined],
    [{ ...OPENCODE, 'x-deepseek-harness-compact': ['1'] }, undefined],
  ])('is told by %j: %s', (headers, expected) => {
    const session = readSession(headers, null);
    expect(session).not.toBeNull();
    expect(session?.compaction).toBe(expected);
    if (expected === undefined) expect(session).not.toHaveProperty('compaction');
  });
});

it('whatever is sent, a session has an id of 1 to 256 characters, and headers within their limits (P12)', () => {
  const name = fc.constantFrom(
    ...Object.keys({ ...CANONICAL, ...CLAUDE_CHILD, ...CODEX, ...DEEPSEEK, ...OPENCODE, ...PARENT_OF_ROOT }),
    'x-codex-turn-metadata',
    'x-claude-code-prompt-id',
    'session-id',
    'authorization',
  );
  const value = fc.oneof(
    fc.string({ maxLength: 6 }),
    fc.constantFrom('', ' ', 'a', '\u00e9'),
    fc.integer({ min: 250, max: 17_000 }).map((length) => 'x'.repeat(length)),
  );
  const headers = fc.dictionary(name, fc.array(value, { maxLength: 40 }), { maxKeys: 12 });
  fc.assert(
    fc.property(headers, (sent) => {
      const session = readSession(sent, null);
      expect(readSession(sent, null)).toEqual(session);
      if (session === null) return;
      for (const id of [session.sessionId, session.parentSessionId ?? 'none']) {
        expect(id).toMatch(/^[\x20-\x7e]{1,256}$/);
        expect(id).toBe(id.trim());
      }
      expect(session.parentSessionId).not.toBe(session.sessionId);
      const captured = Object.entries(session.agentHeaders).flatMap(([header, values]) =>
        values.map((kept) => [header, kept] as const),
      );
      expect(captured.length).toBeLessThanOrEqual(64);
      let bytes = 0;
      for (const [header, kept] of captured) {
        expect(kept.length).toBeLessThanOrEqual(16_384);
        expect(sent[header]).toContain(kept);
        bytes += header.length + kept.length;
      }
      expect(bytes).toBeLessThanOrEqual(32_768);
      expect(session.agentHeaders).not.toHaveProperty('authorization');
    }),
  );
});
