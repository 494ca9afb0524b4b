// Keys keep sessions of different partitions and tenants apart, whatever characters their names have.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sessionKey } from './session-key.ts';

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

test('parts of 256 characters are taken, longer ones and an empty id refused', () => {
  const partition = { model: 'm', routingGroup: '' };
  const [fits, over] = ['x'.repeat(256), 'x'.repeat(257)];
  expect(sessionKey({ model: fits, routingGroup: fits }, fits, fits)).toContain(fits);
  expect(() => sessionKey(partition, null, over)).toThrow(
    'a session id has at most 256 characters here, but one has 257',
  );
  expect(() => sessionKey(partition, over, 's')).toThrow('a tenant has at most 256 characters');
  expect(() => sessionKey({ model: over, routingGroup: '' }, null, 's')).toThrow('a model has at most');
  expect(() => sessionKey({ model: '', routingGroup: over }, null, 's')).toThrow(
    'a routing group has at most',
  );
  expect(() => sessionKey(partition, null, '')).toThrow('a session id is empty');
});
