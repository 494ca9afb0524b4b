// What the hint stage costs a decision: with no hint policy beside a build without the stage, and with one that asks for nothing.
import { defineHintPolicy, defineRequestClassifier, type Rng, seededRng } from '../src/plugin/index.ts';
import { kvcr, kvFetch } from '../src/policies/index.ts';
import { type BenchRoad, type BenchRoadOptions, BLOCK, makeBenchRoad } from './bench-road.ts';
import { buildCopy } from './compiled-out.ts';
import { type Compared, type Comparison, compare } from './interleaved.ts';

const SLICES: Comparison = { turns: 801, sliceNs: 150_000 };

const NO_OP = defineHintPolicy({
  type: 'no-op',
  actions: [],
  create: () => ({ buildHints: () => [] }),
});

/** In process and without `onEvent`, as one that only looks at requests. */
const NO_OP_CLASSIFIER = defineRequestClassifier({
  type: 'no-op-classifier',
  create: () => ({ classify: () => undefined }),
});

/** Roads with something that does nothing, beside the same road without it. */
const NO_OPS: readonly { readonly name: string; readonly options: Partial<BenchRoadOptions> }[] = [
  { name: 'with a hint policy that answers nothing', options: { hints: [{ definition: NO_OP }] } },
  { name: 'with a classifier that overrides nothing', options: { classifier: NO_OP_CLASSIFIER } },
];

/** Select, book and free 256 tokens among 8 workers, no hint policy: with the stage cut out (twice), and as it is built. */
export async function compareWithoutStage(takesHints: boolean): Promise<readonly Compared[]> {
  const options = { ...promptsOf(256, 512), workers: 8, records: false, takesHints };
  const road = async (copy: string, stage: 'kept' | 'cut') =>
    (await (await buildCopy(copy, stage)).road.makeBenchRoad(options)).decide;
  return compare(
    [
      { name: 'hint stage compiled out', once: await road('without-stage', 'cut') },
      { name: 'the same build once more', once: await road('without-stage-again', 'cut') },
      { name: 'select + book + free', once: await road('with-stage', 'kept') },
    ],
    SLICES,
  );
}

/** The default cost among `workers` workers in both builds: the stage is not part of it, and must not get in its way. */
export async function compareSelectionsOfBuilds(workers: number): Promise<readonly Compared[]> {
  const chooser = async (copy: string, stage: 'kept' | 'cut') =>
    (await buildCopy(copy, stage)).selection.chooseAmong(workers);
  return compare(
    [
      { name: 'hint stage compiled out', once: await chooser('without-stage', 'cut') },
      { name: 'the same build once more', once: await chooser('without-stage-again', 'cut') },
      { name: 'selection', once: await chooser('with-stage', 'kept') },
    ],
    SLICES,
  );
}

/** Whole decisions over 4,096 tokens among 32 workers that take hints. */
export async function compareNoOps(): Promise<readonly Compared[]> {
  const options = { ...promptsOf(4096, 512), workers: 32, records: false, takesHints: true };
  const roads: { name: string; road: BenchRoad }[] = [];
  for (const { name, options: more } of [{ name: 'whole decision', options: {} }, ...NO_OPS]) {
    roads.push({ name, road: await makeBenchRoad({ ...options, ...more }) });
  }
  return compare(
    roads.map(({ name, road }) => ({ name, once: road.decide })),
    SLICES,
  );
}

/** Whole decisions over 4,096 tokens, of which every other worker holds an eighth and one worker three quarters. */
export async function compareCopying(workers: number): Promise<readonly Compared[]> {
  // As a system prompt is: few prompts, as each is stored by half of the workers.
  const options = { ...promptsOf(4096, 32), shared: 32, workers, records: false, takesHints: true };
  const hints = [{ definition: kvFetch }];
  const parameters = { shared_cache_multiplier: 0.5 };
  const roads = {
    kv: await makeBenchRoad(options),
    'kv + kv_fetch': await makeBenchRoad({ ...options, hints }),
    'kvcr + kv_fetch': await makeBenchRoad({
      ...options,
      hints,
      selection: { definition: kvcr, parameters },
    }),
  };
  return compare(
    Object.entries(roads).map(([name, road]) => ({ name, once: road.decide })),
    SLICES,
  );
}

/** `count` prompts, each resident in its first three quarters. */
function promptsOf(tokens: number, count: number): Pick<BenchRoadOptions, 'prompts' | 'resident'> {
  const rng: Rng = seededRng(1);
  const prompts = Array.from({ length: count }, () =>
    Uint32Array.from({ length: tokens }, () => rng.integer(150_000)),
  );
  return { prompts, resident: Math.floor((tokens / BLOCK) * 0.75) };
}
