import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Fleet } from '../../fleet/index.ts';
import { workerSpec } from '../road.fixtures.ts';
import { PrefillRouters } from './prefill-routers.ts';

const ROLES = ['aggregated', 'prefill', 'decode', 'encode'] as const;

it('says of each model what a look at its workers says, whatever happens to them', () => {
  const step = fc.record({
    id: fc.integer({ min: 1, max: 5 }),
    role: fc.constantFrom(...ROLES),
    registered: fc.boolean(),
    to: fc.constantFrom('added' as const, 'removed' as const, 'ready' as const, 'gone' as const),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const fleet = new Fleet();
      const routers = new PrefillRouters(fleet);
      let active = false;
      for (const { id, role, registered, to } of steps) {
        const there = fleet.worker(BigInt(id)) !== null;
        if (to === 'added') {
          if (!there) fleet.add({ ...workerSpec(BigInt(id)), role, registered });
        } else if (!there) continue;
        else if (to === 'removed') fleet.remove(BigInt(id));
        else fleet.setState(BigInt(id), to);
        const own = fleet.workers().filter(({ spec }) => spec.registered !== true);
        const count = (of: string, state?: string): number =>
          own.filter(({ spec, ...now }) => spec.role === of && (state ?? now.state) === now.state).length;
        const ready = count('prefill', 'ready') > 0;
        const divided = count('prefill') + count('decode') > 0;
        const { model } = workerSpec(1n);
        active = divided && (active || ready);
        expect(routers.divides(model)).toBe(
          count('decode') > 0 || (count('prefill') > 0 && count('aggregated') === 0),
        );
        expect(routers.decodes(model)).toBe(count('decode', 'ready') > 0);
        expect(routers.stateOf(model)).toBe(ready ? 'active' : active ? 'unavailable' : 'pending');
      }
    }),
    { numRuns: 300 },
  );
});
