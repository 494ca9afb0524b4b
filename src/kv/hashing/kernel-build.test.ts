import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const script = fileURLToPath(new URL('../../../scripts/build-wasm.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-kernel-'));

afterAll(() => rmSync(folder, { recursive: true }));

describe('the checked-in kernel', () => {
  it('is what its sources in wasm/ compile to, byte for byte', () => {
    const rebuilt = join(folder, 'kernel.generated.ts');
    execFileSync(process.execPath, [script, rebuilt], { stdio: 'pipe' });
    const checkedIn = readFileSync(new URL('./kernel.generated.ts', import.meta.url));
    expect(readFileSync(rebuilt).equals(checkedIn), 'run npm run wasm and commit the result').toBe(true);
  });
});
