// What happens to a real process whose output goes nowhere.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

// The program from source: jiti compiles it on the way.
const jiti = dirname(createRequire(import.meta.url).resolve('jiti/package.json'));
const entry = [join(jiti, 'lib/jiti-cli.mjs'), fileURLToPath(new URL('./main.ts', import.meta.url))];
const SAMPLE = fileURLToPath(
  new URL('../../tests/fixtures/mooncake_conversation_sample.jsonl', import.meta.url),
);
/** Its report is larger than a pipe holds. */
const REPLAY = ['replay', SAMPLE, '--limit', '5', '--workers', '2000', '--json'];

async function ended(child: ChildProcess): Promise<{ code: number | null; err: string }> {
  let err = '';
  child.stderr?.on('data', (bytes: Buffer) => {
    err += bytes.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, err };
}

describe('processIo', () => {
  it('ends quietly when the reader goes away in the middle', async () => {
    const child = spawn(process.execPath, [...entry, ...REPLAY], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.once('data', () => child.stdout.destroy());
    expect(await ended(child)).toEqual({ code: 0, err: '' });
  });

  it.skipIf(!existsSync('/dev/full'))('says that a disk is full, with exit code 1', async () => {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [...entry, ...REPLAY], { stdio: ['ignore', full, 'pipe'] });
    closeSync(full);
    const { code, err } = await ended(child);
    expect(err).toBe('error: the output cannot be written: ENOSPC: no space left on device, write\n');
    expect(code).toBe(1);
  });
});
