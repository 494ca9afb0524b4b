import { expect, it } from 'vitest';
import { KEYLESS_PREFIX } from '../kv/index.ts';
import { createMetrics } from '../observe/index.ts';
import { keylessSessions } from './keyless-sessions.ts';

it('gives no id twice: neither again after it was off, nor as another router does', () => {
  const settings = { keylessSessions: true };
  const of = keylessSessions(() => settings, createMetrics());
  const other = keylessSessions(() => settings, createMetrics());
  const [first, second] = [Uint32Array.of(1, 2), Uint32Array.of(3, 4)];
  const ids = [of()?.nameOf('m', first, 0), of()?.nameOf('m', second, 0), other()?.nameOf('m', first, 0)];
  expect(of()?.nameOf('m', first, 0)).toBe(ids[0]);
  settings.keylessSessions = false;
  expect(of()).toBeNull();
  settings.keylessSessions = true;
  ids.push(of()?.nameOf('m', first, 0));
  expect(new Set(ids).size).toBe(4);
  for (const id of ids) {
    expect(id?.startsWith(KEYLESS_PREFIX)).toBe(true);
    expect(id?.length).toBeLessThan(256);
  }
});
