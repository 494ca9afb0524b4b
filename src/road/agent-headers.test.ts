import { describe, expect, it } from 'vitest';
import { agentHeadersOf } from './agent-headers.ts';

describe('captured agent headers', () => {
  it('are those of agents, every value in its order and as it was sent', () => {
    const captured = agentHeadersOf({
      'x-claude-code-prompt-id': [' a ', '', 'b'],
      'x-codex-turn-metadata': ['{}'],
      'x-openai-subagent': ['review'],
      authorization: ['Bearer secret'],
      cookie: ['secret'],
      'x-api-key': ['secret'],
      'x-other': ['1'],
    });
    expect(captured).toEqual({
      'x-claude-code-prompt-id': [' a ', '', 'b'],
      'x-codex-turn-metadata': ['{}'],
      'x-openai-subagent': ['review'],
    });
    expect(Object.isFrozen(captured)).toBe(true);
    expect(Object.isFrozen(captured['x-codex-turn-metadata'])).toBe(true);
  });

  it('hold session-id only beside a thread-id', () => {
    expect(agentHeadersOf({ 'session-id': ['s'] })).toEqual({});
    expect(agentHeadersOf({ 'session-id': ['s'], 'thread-id': [' '] })).toEqual({ 'thread-id': [' '] });
    expect(agentHeadersOf({ 'session-id': ['s'], 'thread-id': ['t'] })).toEqual({
      'session-id': ['s'],
      'thread-id': ['t'],
    });
  });

  it('leave out what is no text or too large, value by value', () => {
    const large = 'x'.repeat(16_384);
    expect(agentHeadersOf({ 'x-codex-a': ['caf\u00e9', `${large}x`, 'kept'] })).toEqual({
      'x-codex-a': ['kept'],
    });
    expect(agentHeadersOf({ 'x-codex-a': [large, large, 'kept'] })['x-codex-a']).toEqual([large, 'kept']);
    const many = Array.from({ length: 70 }, (_, at) => String(at));
    expect(agentHeadersOf({ 'x-codex-a': many })['x-codex-a']).toEqual(many.slice(0, 64));
  });
});
