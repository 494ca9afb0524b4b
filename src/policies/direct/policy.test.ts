import { expect, it } from 'vitest';
import { testWorkerSelection } from '../../testing/index.ts';
import { direct } from './policy.ts';

const candidates = [{ workerId: 3n }, { workerId: 5n, rank: 0 }, { workerId: 5n, rank: 1 }];

it('sends a pinned request where it is pinned to, and reads nothing', async () => {
  const at = async (workerId: bigint, rank: number | null) => {
    const request = { pinnedWorker: { workerId, rank } };
    return testWorkerSelection(direct, { candidates, request });
  };
  const { decisions, needs } = await at(5n, 1);
  expect(decisions[0]).toMatchObject({ workerId: 5n, rank: 1, by: 'pinned' });
  expect((await at(3n, null)).decisions[0]).toMatchObject({ workerId: 3n, by: 'pinned' });
  expect(Object.values(needs).some(Boolean)).toBe(false);
});

it('refuses a request without a pin in words, also where only one worker is left', async () => {
  for (const some of [candidates, candidates.slice(0, 1)]) {
    await expect(testWorkerSelection(direct, { candidates: some, role: 'decode' })).rejects.toMatchObject({
      code: 'PM_SELECTION_PIN_REQUIRED',
      status: 400,
      message:
        'worker selection policy direct of role decode takes pinned requests only, and this one names no worker; send x-dynamo-worker-instance-id from a network in router.trust_routing_fields_from, or use another policy',
    });
  }
});
