// Keys keep sessions of different partitions and tenants apart, whatever characters their names have.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sessionKey, sessionNamespace } from './session-key.ts';

const text = fc.oneof(fc.constantFrom('', '1', ':', '1:', '-', 'a', '1:a'), fc.string({ maxLength: 4 }));
const session = fc.record({
  model: text,
  routingGroup: text,
  tenant: fc.option(text),
  id: text.map((id) => `${id}x`),
});

test('two sessions have the same key exactly when model, group, tenant and id are the same', () => {
  fc.assert(
    fc.property(session, session, (a, b) => {
      const isSame =
        a.model === b.model && a.routingGroup === b.routingGroup && a.tenant === b.tenant && a.id === b.id;
      expect(sessionKey(a, a.tenant, a.id) === sessionKey(b, b.tenant, b.id)).toBe(isSame);
    }),
    { numRuns: 2000 },
  );
});

test('a namespace is the same exactly for those of one tenant, or of one salt without one, and tells neither', () => {
  const owner = fc.record({ tenant: fc.option(text), cacheSalt: fc.option(text) });
  const nameOf = ({ cacheSalt, tenant }: { cacheSalt: string | null; tenant: string | null }) =>
    tenant === null
      ? cacheSalt === null || cacheSalt === ''
        ? 'none'
        : `salt ${cacheSalt}`
      : `tenant ${tenant}`;
  fc.assert(
    fc.property(owner, owner, (a, b) => {
      expect(sessionNamespace(a) === sessionNamespace(b)).toBe(nameOf(a) === nameOf(b));
      expect(sessionNamespace(a) ?? '0'.repeat(32)).toMatch(/^[0-9a-f]{32}$/);
      if (nameOf(a) === 'none') expect(sessionNamespace(a)).toBeNull();
    }),
    { numRuns: 1000 },
  );
});

test('ids of 256 characters are taken, longer ones and an empty one refused; names may be of any length', () => {
  const partition = { model: 'm', routingGroup: '' };
  const [fits, over] = ['x'.repeat(256), 'x'.repeat(257)];
  expect(sessionKey({ model: fits, routingGroup: fits }, fits, fits)).toContain(fits);
  expect(() => sessionKey(partition, null, over)).toThrow(
    'a session id has at most 256 characters here, but one has 257',
  );
  const long = [over, `${over}x`, `x${'y'.repeat(256)}`];
  const keys = long.flatMap((name) => [
    sessionKey(partition, name, 's'),
    sessionKey({ model: name, routingGroup: '' }, null, 's'),
    sessionKey({ model: '', routingGroup: name }, null, 's'),
  ]);
  expect(new Set(keys).size).toBe(9);
  for (const key of keys) expect(key.length).toBeLessThan(80);
  expect(() => sessionKey(partition, null, '')).toThrow('a session id is empty');
});
