// Session traces as files: kinds told apart, lines that do not go together, caps.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { MAX_SESSION_LINE_BYTES, readSessionTrace, traceFormatOf } from './read-session-trace.ts';

const folder = mkdtempSync(join(tmpdir(), 'session-trace-'));
afterAll(() => rmSync(folder, { recursive: true }));

const line = (id: string, change: object = {}): string =>
  JSON.stringify({
    id,
    block_size: 64,
    requests: [{ t: 0, type: 'n', in: 70, out: 2, hash_ids: [4] }],
    ...change,
  });

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function problem(content: string): Promise<string> {
  try {
    await readSessionTrace(file('trace.jsonl', content));
  } catch (thrown) {
    if (thrown instanceof PointsmanError && thrown.code === 'PM_REPLAY_TRACE') return thrown.message;
    throw thrown;
  }
  return 'no problem';
}

describe('readSessionTrace', () => {
  it.each([
    ['plain.jsonl', (text: string) => Buffer.from(text)],
    ['marked.jsonl', (text: string) => Buffer.from(`\ufeff${text}`)],
    ['packed.jsonl.gz', (text: string) => gzipSync(text)],
  ])('reads %s, blank lines included, no further than the limit', async (name, pack) => {
    const path = file(name, pack(`${line('a')}\n\n${line('b')}\r\n${line('c')}\nnonsense`));
    const trace = await readSessionTrace(path, 3);
    expect(trace).toMatchObject({ kind: 'sessions', name, blockSize: 64 });
    expect(trace.lines.map(({ sessions }) => sessions[0]!.id)).toEqual(['a', 'b', 'c']);
    await expect(readSessionTrace(path)).rejects.toThrow(`${name}:5: the line is no valid JSON in UTF-8`);
  });

  it('refuses a file without sessions, ids that come twice, and blocks of several sizes', async () => {
    expect(await problem('\n')).toBe('trace.jsonl holds no session; a session trace has one per line');
    expect(await problem(`${line('a')}\n${line('a')}`)).toBe(
      'trace.jsonl:2: id is a, as that of line 1; each session has its own',
    );
    expect(await problem(`${line('a')}\n${line('b', { block_size: 65 })}`)).toBe(
      'trace.jsonl:2: block_size is 65, but 64 above; a trace has one',
    );
    await expect(readSessionTrace(join(folder, 'none.jsonl'))).rejects.toThrow(
      /^cannot read the trace .*none\.jsonl: /,
    );
  });

  it('refuses a session whose id is that of a sub-agent of another line', async () => {
    const turn = { t: 0, type: 'n', in: 70, out: 2, hash_ids: [4] };
    const agent = { type: 'subagent', t: 1, duration_ms: 5, agent_id: 'b', requests: [turn] };
    const parent = line('a', { requests: [turn, agent] });
    expect(await problem(`${parent}\n${line('a/b')}`)).toBe(
      'trace.jsonl:2: id is a/b, as that of a sub-agent of line 1; each session has its own',
    );
    expect(await problem(`${line('a/b')}\n${parent}`)).toBe(
      'trace.jsonl:2: requests hold a sub-agent with the id a/b, as that of line 1; each session has its own',
    );
  });

  it('says what is wrong with a value however deep it is', async () => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    expect(await problem(`${line('a')}\n{"id":${deep},"requests":[]}`)).toBe(
      'trace.jsonl:2: id is a list or an object that nests too deep to be shown; it must be a text of 1 to 128 printable ASCII characters without blanks',
    );
  });

  it('refuses a longer line without reading the file to its end', async () => {
    const long = `${line('a')}\n${line('b')}${' '.repeat(MAX_SESSION_LINE_BYTES)}\n`;
    expect(await problem(long)).toBe(
      `trace.jsonl:2: the line is longer than ${MAX_SESSION_LINE_BYTES} bytes`,
    );
  });
});

describe('traceFormatOf', () => {
  it('tells by the first line that is not blank', async () => {
    const mooncake = '{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [0, 7]}';
    expect(await traceFormatOf(file('m.jsonl', `\n${mooncake}\n`))).toBe('mooncake');
    expect(await traceFormatOf(file('s.jsonl', `\n\n${line('a')}\n${mooncake}`))).toBe('sessions');
    expect(
      await traceFormatOf(file('s.jsonl.gz', gzipSync(line('a').replace('"requests":[', '"requests" : [ ')))),
    ).toBe('sessions');
    expect(await traceFormatOf(file('e.jsonl', ''))).toBe('mooncake');
    expect(await traceFormatOf(file('x.jsonl', '"requests"'))).toBe('mooncake');
    await expect(traceFormatOf(join(folder, 'none.jsonl'))).rejects.toThrow(/^cannot read the trace/);
  });
});
