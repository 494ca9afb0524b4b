// Who may take a request, from the configuration to the decision record.
import { expect, it } from 'vitest';
import { NO_CONSTRAINTS } from '../src/road/index.ts';
import { countedTokens } from './support/road-request.ts';
import { ANSWERED, scriptedFleet } from './support/scripted-fleet.ts';

it.each(['kv', 'round-robin', 'random'])(
  'requests of an adapter go to workers that hold it in mode %s, and share no cache with other prompts',
  async (mode) => {
    const fleet = ['adapters: [law]', '', 'adapters: [law, code]'];
    const { arrive, core } = await scriptedFleet(`router: { mode: ${mode}, seed: 1 }`, fleet);
    const tokens = countedTokens(320);
    for (let at = 0; at < 12; at += 1) {
      const one = arrive({ tokens, loraName: 'law' });
      expect([1n, 3n]).toContain(one.worker?.workerId);
      expect(one.record()?.candidates).toContainEqual({
        worker_id: 2n,
        dp_rank: 0,
        eligible: false,
        reason: 'missing_adapter',
      });
      one.engine?.tokens(1);
      one.engine?.finished({ ...ANSWERED, promptTokens: 320 });
    }
    // The same tokens under another adapter, or none, are another prompt.
    for (const loraName of ['code', null]) {
      const other = arrive({ tokens, loraName });
      for (const candidate of other.record()?.candidates ?? [])
        if (candidate.eligible) expect(candidate.overlap_blocks.device).toBe(0);
      other.engine?.finished(ANSWERED);
    }
    expect(arrive({ loraName: 'poetry' }).error).toMatchObject({
      code: 'PM_SELECTION_ADAPTER_UNKNOWN',
      status: 404,
    });
    for (const id of [1n, 3n]) core.fleet.setState(id, 'draining');
    expect(arrive({ loraName: 'law' }).error?.code).toBe('PM_SELECTION_NO_ENDPOINTS');
    expect(core.road.activeBookings()).toBe(0);
  },
);

it('topology domains of the configuration can be required and preferred as taints', async () => {
  const fleet = ['topology: { zone: a }', 'topology: { zone: b, rack: r7 }'];
  const { arrive } = await scriptedFleet('', fleet);
  for (let at = 0; at < 6; at += 1) {
    const requiredTaints = ['dynamo.topology/zone=b'];
    expect(arrive({ constraints: { ...NO_CONSTRAINTS, requiredTaints } }).worker?.workerId).toBe(2n);
  }
  const preferredTaints = new Map([['dynamo.topology/zone=a', 1]]);
  expect(arrive({ constraints: { ...NO_CONSTRAINTS, preferredTaints } }).worker?.workerId).toBe(1n);
  const requiredTaints = ['dynamo.topology/zone=c'];
  expect(arrive({ constraints: { ...NO_CONSTRAINTS, requiredTaints } }).error).toMatchObject({
    code: 'PM_SELECTION_NO_ENDPOINTS',
    message: expect.stringContaining('2 missing taint'),
  });
});
