// The table against a naive map of ids: claimed, booked or free.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import { type Claim, ReservationTable } from './reservation-table.ts';

type Held = { readonly claim: number } | { readonly value: number };

const IDS = ['a', 'b', 'c'];
const operation = fc.record({
  kind: fc.constantFrom('claim', 'install', 'release', 'remove', 'removeStale'),
  id: fc.constantFrom(...IDS),
});

it('gives every id to one claim at a time, and forgets nothing and nobody twice', () => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
      const table = new ReservationTable<{ readonly number: number }>();
      const naive = new Map<string, Held>();
      const claims: { id: string; number: number; claim: Claim<{ readonly number: number }> }[] = [];
      const values = new Map<number, { readonly number: number }>();
      let number = 0;
      for (const { id, kind } of operations) {
        const held = naive.get(id);
        const latest = claims.filter((one) => one.id === id).at(-1);
        if (kind === 'claim') {
          const claim = (): Claim<{ readonly number: number }> => table.claim(id);
          if (held !== undefined) expect(claim).toThrow(PointsmanError);
          else {
            number += 1;
            claims.push({ id, number, claim: claim() });
            naive.set(id, { claim: number });
          }
        } else if (kind === 'install' && latest !== undefined) {
          const value = { number: latest.number };
          const isOpen = held !== undefined && 'claim' in held && held.claim === latest.number;
          expect(latest.claim.install(value)).toBe(isOpen);
          if (isOpen) {
            values.set(latest.number, value);
            naive.set(id, { value: latest.number });
          }
        } else if (kind === 'release') {
          for (const one of claims.filter((other) => other.id === id)) one.claim.release();
          if (held !== undefined && 'claim' in held) naive.delete(id);
        } else if (kind === 'remove' && held !== undefined && 'value' in held) {
          table.remove(id, values.get(held.value)!);
          naive.delete(id);
        } else if (kind === 'removeStale') table.remove(id, { number: -1 });
        for (const one of IDS) {
          const now = naive.get(one);
          const expected = now !== undefined && 'value' in now ? values.get(now.value) : null;
          expect(table.get(one)).toBe(expected);
        }
        expect(table.rows).toBe(naive.size);
        expect(table.size).toBe([...naive.values()].filter((one) => 'value' in one).length);
        expect([...table.values()]).toHaveLength(table.size);
      }
    }),
  );
});
