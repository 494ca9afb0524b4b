// kv_release_session over random trees of sub-agents on a simulated engine: ends come from the leaves, parents are idle meanwhile.
// POINTSMAN_AGENT_TREES says how many trees are tried.
import { expect, it } from 'vitest';
import { seededRng } from '../src/plugin/index.ts';
import { agentTrees } from './support/agent-trees.ts';
import { IndexReleaseLineage, NaiveReleaseLineage } from './support/release-lineage.ts';

const TREES = Number(process.env.POINTSMAN_AGENT_TREES ?? 1000);

it.each([
  ['the session prefix index', () => new IndexReleaseLineage()],
  ['a naive lineage', () => new NaiveReleaseLineage()],
] as const)(
  'over %s the end of a child takes no block of its parent or siblings, and the parent’s next turn hits every block in the engine',
  async (_, lineageOf) => {
    let seed = 0;
    const trees = await agentTrees(lineageOf, (problem) => {
      throw new Error(`seed ${seed}: ${problem}`);
    });
    for (seed = 1; seed <= TREES; seed += 1) trees.run(seededRng(seed));
    const { ends, evicted, released } = trees.tally;
    // It means something only when much is released, and engines run short as well.
    expect(ends).toBeGreaterThan(TREES);
    expect(released).toBeGreaterThan(2 * TREES);
    expect(evicted).toBeGreaterThan(TREES);
  },
  3_600_000,
);
