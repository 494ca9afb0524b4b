import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const script = fileURLToPath(new URL('../../../scripts/build-wasm.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-kernel-'));

afterAll(() => rmSync(folder, { recursive: true }));

describe('the checked-in kernels', () => {
  it('are what their sources in wasm/ compile to, byte for byte', () => {
    execFileSync(process.execPath, [script, folder], { stdio: 'pipe' });
    for (const name of ['kv/hashing/kernel.generated.ts', 'host/scan-kernel.generated.ts']) {
      const checkedIn = readFileSync(new URL(`../../${name}`, import.meta.url));
      const rebuilt = readFileSync(join(folder, name));
      expect(rebuilt.equals(checkedIn), `${name}: run npm run wasm and commit the result`).toBe(true);
    }
  });
});
