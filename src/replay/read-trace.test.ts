// Every wrong line is refused with its number and what would be right.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { MAX_LINE_BYTES, readTrace } from './read-trace.ts';
import { promptTokens } from './trace.ts';

let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'trace-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const GOOD = '{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [0, 7]}';
const LATER = '{"timestamp": 9, "input_length": 512, "output_length": 1, "hash_ids": [0], "session_id": "x"}';

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function problem(content: string | Uint8Array, name = 'trace.jsonl'): Promise<string> {
  try {
    await readTrace(file(name, content));
  } catch (thrown) {
    if (thrown instanceof PointsmanError && thrown.code === 'PM_REPLAY_TRACE') return thrown.message;
    throw thrown;
  }
  return 'no problem';
}

describe('readTrace', () => {
  it.each([
    ['plain.jsonl', (text: string) => Buffer.from(text)],
    ['marked.jsonl', (text: string) => Buffer.from(`\ufeff${text}`)],
    ['packed.jsonl.gz', (text: string) => gzipSync(text)],
  ])(
    'reads %s, blank lines and a missing last newline included, and counts time from the first request',
    async (name, pack) => {
      const trace = await readTrace(file(name, pack(`${GOOD}\n\n${LATER}\r\n  \n${LATER}`)));
      expect(trace).toMatchObject({ name, requests: 3 });
      expect([...trace.arrivals]).toEqual([0, 4, 4]);
      expect([...trace.inputLengths]).toEqual([600, 512, 512]);
      expect([...trace.hashIds]).toEqual([0, 7, 0, 0]);
      expect([...trace.idOffsets]).toEqual([0, 2, 3, 4]);
    },
  );

  it('reads no further than the limit', async () => {
    const trace = await readTrace(file('limited.jsonl', `${GOOD}\n${LATER}\nnonsense`), 2);
    expect(trace.requests).toBe(2);
    const long = file('long.jsonl', `${GOOD}\n${' '.repeat(MAX_LINE_BYTES + 1)}\n`);
    expect((await readTrace(long, 1)).requests).toBe(1);
  });

  it('makes a prompt of each id 512 times, cut at the input length or as whole blocks', async () => {
    const trace = await readTrace(file('prompt.jsonl', GOOD));
    const cut = promptTokens(trace, 0, 'cut');
    expect(cut).toHaveLength(600);
    expect([cut[511], cut[512], cut[599]]).toEqual([0, 7, 7]);
    const whole = promptTokens(trace, 0, 'whole-blocks');
    expect(whole).toHaveLength(1024);
    expect(whole[1023]).toBe(7);
  });

  const NUMBER = 'a whole number from 1 to 4194304';
  it.each([
    ['{"timestamp"', 'the line is no valid JSON in UTF-8'],
    ['[1]', 'the line is no JSON object with timestamp, input_length, output_length and hash_ids'],
    [GOOD.replace('5', '-1'), 'timestamp is -1; it must be a number from 0 to 1000000000000000'],
    [GOOD.replace('5', '1e999'), 'timestamp is Infinity; it must be a number from 0 to 1000000000000000'],
    [GOOD.replace('"timestamp": 5, ', ''), 'timestamp is missing; it is a number from 0 to 1000000000000000'],
    [GOOD.replace('600', '0'), `input_length is 0; it must be ${NUMBER}`],
    [GOOD.replace('600', '"600"'), `input_length is "600"; it must be ${NUMBER}`],
    [GOOD.replace('600', '5000000'), `input_length is 5000000; it must be ${NUMBER}`],
    [GOOD.replace('3,', '1.5,'), `output_length is 1.5; it must be ${NUMBER}`],
    [
      GOOD.replace('[0, 7]', 'null'),
      'hash_ids is missing or no list; it holds one id per 512 tokens of the prompt',
    ],
    [
      GOOD.replace('[0, 7]', '[0]'),
      'hash_ids has 1 entries, but input_length 600 makes 2 blocks of 512 tokens',
    ],
    [GOOD.replace('[0, 7]', '[0, -7]'), 'hash_ids[1] is -7; an id is a whole number from 0 to 4294967295'],
    [
      GOOD.replace('[0, 7]', `[0, "${'x'.repeat(100)}"]`),
      `hash_ids[1] is "${'x'.repeat(39)}…; an id is a whole number from 0 to 4294967295`,
    ],
    [
      GOOD.replace('5', '4'),
      'timestamp 4 is before that of the request above, 5; requests stand in order of arrival',
    ],
  ])('refuses the line %s', async (line, message) => {
    expect(await problem(`${GOOD}\n\n${line}\n${LATER}`)).toBe(`trace.jsonl:3: ${message}`);
  });

  const FORM =
    '; a trace is Mooncake JSONL, plain or .gz: one request per line with timestamp, input_length, output_length and hash_ids';

  it('says what a trace is when not even the first line is a request', async () => {
    expect(await problem('TIMESTAMP,ContextTokens,GeneratedTokens\n')).toBe(
      `trace.jsonl:1: the line is no valid JSON in UTF-8${FORM}`,
    );
    expect(await problem('{"id": "a", "requests": []}\n')).toBe(
      `trace.jsonl:1: timestamp is missing; it is a number from 0 to 1000000000000000${FORM}`,
    );
  });

  it('refuses bytes that are no UTF-8', async () => {
    expect(await problem(Buffer.from([0x22, 0xff, 0x22, 0x0a]))).toBe(
      `trace.jsonl:1: the line is no valid JSON in UTF-8${FORM}`,
    );
  });

  it('refuses a line that is too long without reading it to its end', async () => {
    expect(await problem(`${GOOD}\n${' '.repeat(MAX_LINE_BYTES + 1)}`)).toBe(
      `trace.jsonl:2: the line is longer than ${MAX_LINE_BYTES} bytes`,
    );
  });

  it('refuses an empty file, a missing one and a broken archive by name', async () => {
    expect(await problem('\n \n', 'empty.jsonl')).toBe(
      'empty.jsonl holds no request; a trace has one JSON object per line, with 512-token hash_ids',
    );
    await expect(readTrace(join(folder, 'absent.jsonl'))).rejects.toThrow(
      `cannot read the trace ${join(folder, 'absent.jsonl')}: no such file`,
    );
    await expect(readTrace(folder)).rejects.toThrow(`cannot read the trace ${folder}: it is a folder`);
    await expect(readTrace('')).rejects.toThrow('cannot read the trace "": no such file');
    const packed = gzipSync(`${GOOD}\n`.repeat(5000));
    expect(await problem(packed.subarray(0, packed.length - 20), 'cut.jsonl.gz')).toMatch(
      /^cut\.jsonl\.gz cannot be read after line \d+: unexpected end of file$/,
    );
    expect(await problem(GOOD, 'unpacked.jsonl.gz')).toMatch(
      /^cannot read the trace .*unpacked\.jsonl\.gz: incorrect header check$/,
    );
  });

  it('answers any bytes with a trace or a precise error', async () => {
    const mangled = fc.record({
      at: fc.nat(),
      byte: fc.integer({ min: 0, max: 255 }),
      cut: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(mangled, { maxLength: 4 }), async (changes) => {
        let bytes = Buffer.from(`${GOOD}\n${LATER}\n`);
        for (const { at, byte, cut } of changes) {
          bytes[at % bytes.length] = byte;
          if (cut % 5 === 0) bytes = bytes.subarray(0, Math.max(1, cut % bytes.length));
        }
        const said = await problem(bytes);
        expect(said).toMatch(/^(no problem|trace\.jsonl:\d+: .+|trace\.jsonl holds no request.*)$/);
      }),
      { numRuns: 100 },
    );
  });
});
