import { mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../observe/index.ts';
import { NO_LOG } from '../../plugin/index.ts';
import { AccessLog, type AccessLogEntry, timeText } from './access-log.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'access-log-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const ENTRY: AccessLogEntry = {
  atMs: 1_700_000_000_500,
  remote: '127.0.0.1',
  method: 'POST',
  path: '/query',
  status: 200,
  durationMs: 1.23456,
  traceId: null,
};
const LINE = {
  time: '2023-11-14T22:13:20.500Z',
  remote: '127.0.0.1',
  method: 'POST',
  path: '/query',
  status: 200,
  duration_ms: 1.235,
  trace_id: null,
};

function opened(path: string) {
  const metrics = createMetrics();
  return { metrics, access: new AccessLog({ path, localTime: false, metrics, log: NO_LOG }) };
}

const linesOf = (path: string): unknown[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);

describe('an access log', () => {
  it('appends lines, bounded in length, and goes on in a new file when it is told to', async () => {
    const [path, moved] = [join(folder, 'a.log'), join(folder, 'a.log.1')];
    const before = opened(path).access;
    before.write(ENTRY);
    await before.close();
    const { access } = opened(path);
    access.write({ ...ENTRY, path: `/${'x'.repeat(1000)}`, traceId: 't'.repeat(1000) });
    renameSync(path, moved);
    access.reopen();
    access.write({ ...ENTRY, status: 404 });
    await access.close();
    await access.close();
    const long = { ...LINE, path: `/${'x'.repeat(255)}`, trace_id: 't'.repeat(256) };
    expect(linesOf(moved)).toEqual([LINE, long]);
    expect(linesOf(path)).toEqual([{ ...LINE, status: 404 }]);
  });

  it('drops lines rather than to hold more than 4 MiB of them, and counts those', async () => {
    const path = join(folder, 'a.log');
    const { access, metrics } = opened(path);
    const wide = { ...ENTRY, path: 'x'.repeat(256) };
    // Within one turn nothing reaches the disk.
    for (let line = 0; line < 16_384; line += 1) access.write(wide);
    await access.close();
    const dropped = /access_log_dropped_total (\d+)/.exec(await metrics.text())?.[1];
    expect(Number(dropped)).toBeGreaterThan(0);
    expect(linesOf(path).length).toBe(16_384 - Number(dropped));
  });

  it('says which file cannot be written', () => {
    const path = join(folder, 'nowhere', 'a.log');
    expect(() => opened(path)).toThrow(`the access log ${path} cannot be written: ENOENT`);
  });

  it('keeps the old file when a new one cannot be had', async () => {
    const inner = mkdtempSync(join(folder, 'inner-'));
    const { access } = opened(join(inner, 'a.log'));
    const moved = join(folder, 'moved');
    renameSync(inner, moved);
    expect(() => access.reopen()).toThrow('cannot be written');
    access.write(ENTRY);
    await access.close();
    expect(linesOf(join(moved, 'a.log'))).toEqual([LINE]);
  });

  it.each([
    [null, '2023-11-14T22:13:20.500Z'],
    [0, '2023-11-14T22:13:20.500+00:00'],
    [120, '2023-11-15T00:13:20.500+02:00'],
    [-210, '2023-11-14T18:43:20.500-03:30'],
  ])('writes times %j minutes ahead of UTC as %s', (offset, text) => {
    expect(timeText(1_700_000_000_500, offset)).toBe(text);
  });
});
