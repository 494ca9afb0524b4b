import { describe, expect, it } from 'vitest';
import { affinityKey, groupIdOf } from './affinity-key.ts';

const scope = { partition: { model: 'm', routingGroup: 'g' }, role: 'decode', cacheSalt: null } as const;
const key = (
  session: { sessionId: string; parentSessionId?: string },
  changes: object = {},
  grouped = true,
) => affinityKey({ ...scope, ...changes }, session, grouped);

describe('a key', () => {
  it('is of one model, routing group, role and tenant', () => {
    const keys = [
      key({ sessionId: 's' }),
      key({ sessionId: 's' }, { partition: { model: 'n', routingGroup: 'g' } }),
      key({ sessionId: 's' }, { partition: { model: 'm', routingGroup: 'h' } }),
      key({ sessionId: 's' }, { role: 'prefill' }),
      key({ sessionId: 's' }, { cacheSalt: 'a' }),
      key({ sessionId: 's' }, { cacheSalt: 'a'.repeat(255) }),
      key({ sessionId: 's' }, { cacheSalt: 'a'.repeat(256) }),
      key({ sessionId: 's' }, { cacheSalt: 'a'.repeat(100_000) }),
      key({ sessionId: 's' }, { tenant: 'a' }),
      key({ sessionId: 's' }, { tenant: 'b', cacheSalt: 'a' }),
      key({ sessionId: 't' }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    for (const one of keys) expect(one.length).toBeLessThan(1200);
  });

  it('is shared by the children of a parent, which has its own; or not', () => {
    const children = ['x', 'y'].map((sessionId) => ({ sessionId, parentSessionId: 'p' }));
    const [x, y] = children.map((child) => key(child));
    expect(x).toBe(y);
    expect(x).not.toBe(key({ sessionId: 'p' }));
    expect(x).not.toBe(key({ sessionId: 'x', parentSessionId: 'q' }));
    const [ownX, ownY] = children.map((child) => key(child, {}, false));
    expect(ownX).toBe(key({ sessionId: 'x' }));
    expect(ownX).not.toBe(ownY);
  });

  it('takes ids of 256 bytes and no longer ones, in UTF-8', () => {
    expect(key({ sessionId: 'a'.repeat(256) })).toContain('aaa');
    expect(key({ sessionId: 'x', parentSessionId: 'é'.repeat(128) })).toContain('sg:');
    for (const session of [
      { sessionId: 'a'.repeat(257) },
      { sessionId: 'é'.repeat(129) },
      { sessionId: 'x', parentSessionId: 'a'.repeat(257) },
    ])
      expect(() => key(session)).toThrowError(expect.objectContaining({ code: 'PM_AFFINITY_ID' }));
  });
});

it('the id of a group begins with a control character and has one length, whatever the parent is called', () => {
  for (const parent of ['p', 'p'.repeat(256)]) {
    const id = groupIdOf(parent);
    expect(id.charCodeAt(0)).toBe(1);
    expect(id.slice(1)).toMatch(/^sg:[0-9a-f]{64}$/);
  }
});
