import { describe, expect, it } from 'vitest';
import { findingOf } from './finding.ts';

const SUBJECT = { worker: 1n, rank: 0, model: 'm', dialect: 'vllm' };

describe('a finding', () => {
  it('tells what an engine said without what would write to a terminal, and not without end', () => {
    const found = '\u001b[2Jkv\r\n\u009b31m\u202e';
    const { remedy, sentence } = findingOf('topic', SUBJECT, { expected: 'kv', found });
    expect(remedy).toContain('workers[].kv_events.0.topic: "\ufffd[2Jkv\ufffd\ufffd\ufffd31m\ufffd"');
    const long = findingOf('not_connected', SUBJECT, { endpoint: 'x'.repeat(100_000) });
    expect(long.sentence.length).toBeLessThan(700);
    expect(sentence).toBe('worker 1 rank 0: publishes under another topic than "kv"');
  });
});
