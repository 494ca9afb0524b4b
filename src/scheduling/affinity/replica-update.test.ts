import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  compareVersions,
  mergeReplica,
  type ReplicaState,
  type ReplicatedBinding,
} from './replica-update.ts';

const binding = (
  worker: bigint,
  sequence: number,
  changes: Partial<ReplicatedBinding> = {},
): ReplicatedBinding => ({
  target: { workerId: worker, rank: 0 },
  version: { sequence, writer: 1n },
  deadline: 1000,
  ...changes,
});
const bound = (own: ReplicatedBinding, leases = 0): ReplicaState => ({ kind: 'bound', binding: own, leases });

it.each<[string, string, ReplicaState, ReplicatedBinding, number, ReplicatedBinding | null]>([
  ['inserted', 's', { kind: 'unbound', full: false }, binding(1n, 5), 0, binding(1n, 5)],
  ['rejected_capacity', 's', { kind: 'unbound', full: true }, binding(1n, 5), 0, null],
  ['rejected_session_id', 'x'.repeat(257), { kind: 'unbound', full: false }, binding(1n, 5), 0, null],
  ['rejected_session_id', 'x'.repeat(257), bound(binding(2n, 1)), binding(1n, 5), 0, binding(2n, 1)],
  ['inserted', 'x'.repeat(256), { kind: 'unbound', full: false }, binding(1n, 5), 0, binding(1n, 5)],
  ['ignored_initializing', 's', { kind: 'initializing' }, binding(1n, 5), 0, null],
  ['replaced_expired', 's', bound(binding(2n, 9)), binding(1n, 5), 1000, binding(1n, 5)],
  ['ignored_conflict', 's', bound(binding(2n, 9), 1), binding(1n, 5), 1000, binding(2n, 9)],
  ['ignored_conflict', 's', bound(binding(2n, 9)), binding(1n, 5), 999, binding(2n, 9)],
  ['replaced_newer', 's', bound(binding(2n, 4), 1), binding(1n, 5), 0, binding(1n, 5)],
  [
    'refreshed',
    's',
    bound(binding(1n, 5)),
    binding(1n, 5, { deadline: 900 }),
    0,
    binding(1n, 5, { deadline: 1000 }),
  ],
  [
    'refreshed',
    's',
    bound(binding(1n, 4)),
    binding(1n, 5, { deadline: 2000 }),
    0,
    binding(1n, 5, { deadline: 2000 }),
  ],
  ['ignored_conflict', 's', bound(binding(1n, 6)), binding(1n, 5, { deadline: 2000 }), 0, binding(1n, 6)],
])('an update is %s', (outcome, id, state, update, now, after) => {
  expect(mergeReplica(id, state, update, now)).toEqual({ outcome, binding: after });
});

const update = fc.record({
  target: fc.record({ workerId: fc.bigInt(1n, 4n), rank: fc.constantFrom(null, 0, 1) }),
  version: fc.record({ sequence: fc.nat(20), writer: fc.bigInt(1n, 3n) }),
  deadline: fc.integer({ min: 10, max: 1000 }),
});

it('routers that have heard the same updates agree on the latest, in whatever order and however often they came', () => {
  const distinct = fc.uniqueArray(update, {
    minLength: 1,
    maxLength: 12,
    comparator: (a, b) => compareVersions(a.version, b.version) === 0,
  });
  const orders = distinct.chain((updates) =>
    fc.tuple(
      fc.constant(updates),
      fc.shuffledSubarray([...updates, ...updates], { minLength: updates.length * 2 }),
      fc.shuffledSubarray(updates, { minLength: updates.length }),
    ),
  );
  fc.assert(
    fc.property(orders, ([updates, ...heard]) => {
      const latest = updates.reduce((a, b) => (compareVersions(a.version, b.version) > 0 ? a : b));
      for (const order of heard) {
        let state: ReplicaState = { kind: 'unbound', full: false };
        for (const next of order) {
          const { binding: after } = mergeReplica('s', state, next, 0);
          if (after !== null) state = { kind: 'bound', binding: after, leases: 0 };
        }
        expect(state).toMatchObject({ binding: { target: latest.target, version: latest.version } });
      }
    }),
  );
});
