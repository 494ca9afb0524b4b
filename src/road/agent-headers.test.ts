import { describe, expect, it } from 'vitest';
import { agentHeadersOf } from './agent-headers.ts';

describe('captured agent headers', () => {
  it('are those of agents, every value in its order and as it was sent', () => {
    const captured = agentHeadersOf({
      'x-claude-code-prompt-id': [' a ', '', 'b'],
      'x-codex-turn-metadata': ['{}'],
      'x-openai-subagent': ['review'],
      'x-dynamo-retention-ttl-ms': ['5000'],
      authorization: ['Bearer secret'],
      cookie: ['secret'],
      'x-api-key': ['secret'],
      'x-other': ['1'],
    });
    expect(captured).toEqual({
      'x-claude-code-prompt-id': [' a ', '', 'b'],
      'x-codex-turn-metadata': ['{}'],
      'x-openai-subagent': ['review'],
      'x-dynamo-retention-ttl-ms': ['5000'],
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

  it('hold 32,768 bytes with their names, and not one more; a smaller value behind one that is left out still fits', () => {
    const name = 'x-codex-a';
    const half = 'x'.repeat(16_384 - name.length);
    expect(agentHeadersOf({ [name]: [half, half] })[name]).toEqual([half, half]);
    expect(agentHeadersOf({ [name]: [half, half, ''] })[name]).toEqual([half, half]);
    const less = half.slice(0, -20);
    expect(agentHeadersOf({ [name]: [half, less, 'x'.repeat(12), 'x'.repeat(11)] })[name]).toEqual([
      half,
      less,
      'x'.repeat(11),
    ]);
  });

  it('hold a value of 16,384 bytes, and none of one more', () => {
    const [fits, over] = ['x'.repeat(16_384), 'x'.repeat(16_385)];
    expect(agentHeadersOf({ 'thread-id': [over, fits] })).toEqual({ 'thread-id': [fits] });
  });

  it('hold 64 values of all headers together', () => {
    const values = (count: number) => Array.from({ length: count }, () => 'v');
    const captured = agentHeadersOf({
      'x-codex-a': values(40),
      'x-claude-code-b': values(30),
      'thread-id': ['t'],
    });
    expect(Object.values(captured).map((kept) => kept.length)).toEqual([40, 24]);
  });
});
