import { createSoloRuntime } from '../src/host/index.ts';
import { ManualClock, NO_LOG } from '../src/plugin/index.ts';
import { dynamoDefaultCostFn, pointsmanExpectedTime, pointsmanTunedCost } from '../src/policies/index.ts';
import { compare } from './interleaved.ts';
import { BLOCK_SIZE, candidates, FACTS } from './selection-fixture.ts';

let kept = 0;
for (const workers of [2, 32, 1024]) {
  const table = candidates(workers);
  for (let i = 0; i < workers; i += 1) {
    table.inFlightBlocks[i] = i % 13 === 0 ? 64 : 0;
    table.prefillRequests[i] = i % 3;
    table.prefillTokens[i] = (i % 3) * 512 + (i % 3 > 0 ? 16 * (i % 64) : 0);
    table.prefillAttention[i] = table.prefillTokens[i]! * 700;
    table.prefillFrontMs[i] = i % 11;
    table.decodeRequests[i] = i % 17;
    table.bookedPromptTokens[i] = 2048 * (i % 20);
  }
  const contenders = [];
  for (const definition of [dynamoDefaultCostFn, pointsmanExpectedTime, pointsmanTunedCost]) {
    const runtime = await createSoloRuntime({
      selection: { definition },
      partition: { model: 'bench', routingGroup: 'default' },
      role: 'prefill',
      blockSize: BLOCK_SIZE,
      clock: new ManualClock(),
      seed: 1,
      log: NO_LOG,
      fleet: { workerOfSlot: () => null, slotRank: () => -1 },
    });
    contenders.push({
      name: definition.type,
      once: () => {
        kept += runtime.select(table, FACTS).row;
      },
    });
  }
  const found = compare(contenders, { turns: 201, sliceNs: 100_000 });
  console.log(
    workers,
    found.map(({ name, ns }) => `${name} ${ns.toFixed(0)}`).join('  '),
    (found[1]!.ns / found[0]!.ns).toFixed(2),
    (found[2]!.ns / found[0]!.ns).toFixed(2),
  );
}
