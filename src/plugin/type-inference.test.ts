// What the compiler promises plugin authors. Every `@ts-expect-error` is a mistake that must not compile; the project's type check
// fails when one does.
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import {
  type BlockResidency,
  type CacheColumns,
  type Clock,
  type CommittedKvCopy,
  type CreateContext,
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  filterWorkers,
  type HintPolicyDefinition,
  type KvCopyLocations,
  type LineageNode,
  linearCost,
  linearCostWithCopies,
  type ParameterSchema,
  type PluginMetrics,
  pickLowestCost,
  pickWorker,
  type Rng,
  type Row,
  type SessionContext,
  type SessionLineage,
  scoreEachWorker,
  scoreWorkers,
  type WorkerPicker,
  type WorkerSelectionPolicyDefinition,
} from './index.ts';

const first = pickWorker({ pick: () => 0 });

describe('parameters', () => {
  it('arrive as the output of the schema', () => {
    const parameters = z.strictObject({
      max_blocks: z.int().default(64),
      at: z.string().transform((text) => new Date(text)),
    });
    const definition = defineHintPolicy({
      type: 'a',
      parameters,
      create: ({ parameters: parsed, clock, rng, metrics }) => {
        expectTypeOf(parsed).toEqualTypeOf<{ max_blocks: number; at: Date }>();
        expectTypeOf(clock).toEqualTypeOf<Clock>();
        expectTypeOf(rng).toEqualTypeOf<Rng>();
        expectTypeOf(metrics).toEqualTypeOf<PluginMetrics>();
        // @ts-expect-error a count has a name
        void (() => metrics.count());
        // @ts-expect-error the parameter is called max_blocks
        void parsed.maxBlocks;
        return { buildHints: () => [] };
      },
    });
    expectTypeOf(definition).toEqualTypeOf<HintPolicyDefinition>();
    expect(definition['~pointsman'].kind).toBe('hint-policy');
  });

  it('are none without a schema', () => {
    const definition = defineWorkerSelectionPolicy({
      type: 'a',
      create: ({ parameters }) => {
        // @ts-expect-error there are no parameters
        void parameters.weight;
        return { picker: first };
      },
    });
    expectTypeOf(definition).toEqualTypeOf<WorkerSelectionPolicyDefinition>();
    expect(Object.isFrozen(definition)).toBe(true);
  });

  it('may come from a hand-written schema', () => {
    const schema: ParameterSchema<unknown, { readonly n: number }> = {
      '~standard': { version: 1, vendor: 'me', validate: () => ({ value: { n: 1 } }) },
    };
    defineHintPolicy({
      type: 'a',
      parameters: schema,
      create: ({ parameters }) => {
        expectTypeOf(parameters.n).toEqualTypeOf<number>();
        return { buildHints: () => [] };
      },
    });
  });
});

describe('scope', () => {
  it('shared takes partition, role and block size away', () => {
    type Schema = ParameterSchema<unknown, { n: number }>;
    expectTypeOf<CreateContext<Schema>>().toHaveProperty('blockSize');
    expectTypeOf<CreateContext<Schema, 'shared'>>().not.toHaveProperty('partition');
    defineHintPolicy({
      type: 'a',
      scope: 'shared',
      create: (context) => {
        // @ts-expect-error a shared policy serves many roles
        void context.role;
        return { buildHints: () => [] };
      },
    });
  });
});

describe('hint inputs', () => {
  it('put onto the context exactly what is declared', () => {
    defineHintPolicy({
      type: 'a',
      inputs: ['cache', 'kv-copy-locations'],
      create: () => ({
        buildHints(context) {
          expectTypeOf(context.cache).toEqualTypeOf<Row<CacheColumns>>();
          expectTypeOf(context.copyLocations).toEqualTypeOf<KvCopyLocations>();
          expectTypeOf(context.session).toEqualTypeOf<SessionContext | null>();
          // @ts-expect-error load is not declared
          void context.load;
          // @ts-expect-error the session may be missing
          void context.session.sessionId;
          return [];
        },
      }),
    });
  });

  it('that may be switched off are null then, and must be asked for', () => {
    const definition = defineHintPolicy({
      type: 'a',
      inputs: ['session-lineage', 'residency'],
      create: () => ({
        buildHints({ lineage, residency, session, worker }) {
          expectTypeOf(lineage).toEqualTypeOf<SessionLineage | null>();
          expectTypeOf(residency).toEqualTypeOf<BlockResidency | null>();
          // @ts-expect-error lineage may be switched off
          void lineage.frontiers('s');
          // @ts-expect-error residency may be switched off
          void residency.tierOf(worker, 1n);
          const hashes = lineage?.paths(session?.sessionId ?? '', worker).flatMap((path) => [...path]);
          expectTypeOf(hashes).toEqualTypeOf<bigint[] | undefined>();
          const node = lineage?.node(lineage.nodeOf(1n) ?? 0);
          expectTypeOf(node).toEqualTypeOf<LineageNode | null | undefined>();
          return [];
        },
      }),
    });
    expect(definition.inputs).toEqual(['session-lineage', 'residency']);
    defineHintPolicy({
      type: 'a',
      inputs: ['load'],
      create: () => ({
        buildHints(context) {
          // @ts-expect-error session-lineage is not declared
          void context.lineage;
          return [];
        },
      }),
    });
    // @ts-expect-error the input is called session-lineage
    defineHintPolicy({ type: 'a', inputs: ['session-linage'], create: () => ({ buildHints: () => [] }) });
  });

  it('are known names in a literal list', () => {
    // @ts-expect-error the input is called kv-copy-locations
    defineHintPolicy({ type: 'a', inputs: ['kv-copy-location'], create: () => ({ buildHints: () => [] }) });
    const inputs: string[] = ['load'];
    // @ts-expect-error a list the compiler cannot read grants nothing
    defineHintPolicy({ type: 'a', inputs, create: () => ({ buildHints: () => [] }) });
  });

  it('may be a choice, which then has to be asked for', () => {
    const choice: readonly ['cache', 'load'] | readonly ['load'] = Math.max(0, 1)
      ? ['load']
      : ['cache', 'load'];
    defineHintPolicy({
      type: 'a',
      inputs: choice,
      create: () => ({
        buildHints(context) {
          void context.load.activeRequests;
          // @ts-expect-error not in both
          void context.cache.deviceBlocks;
          if ('cache' in context) expectTypeOf(context.cache.deviceBlocks).toEqualTypeOf<number>();
          return [];
        },
      }),
    });
  });

  it('do not change that buildHints answers actions at once', () => {
    // @ts-expect-error a promise is not a list of actions
    defineHintPolicy({ type: 'a', create: () => ({ buildHints: async () => [] }) });
    defineHintPolicy({
      type: 'a',
      // @ts-expect-error the version is a string
      create: () => ({ buildHints: () => [{ type: 'a', version: 1, payload: {} }] }),
    });
    defineHintPolicy({
      type: 'a',
      create: () => ({
        buildHints: () => [{ type: 'a', version: '1', payload: { n: 1n, hashes: new BigUint64Array(1) } }],
      }),
    });
  });
});

describe('worker-selection components', () => {
  it('get the types of their own inputs, also inside create', () => {
    const definition = defineWorkerSelectionPolicy({
      type: 'mine',
      parameters: z.strictObject({ weight: z.number().default(1) }),
      create: ({ parameters, rng }) => ({
        filters: [
          filterWorkers({
            inputs: ['load'],
            // @ts-expect-error cache is not declared
            keep: (candidate) => candidate.load.activeRequests < 32 && candidate.cache !== undefined,
          }),
        ],
        scorers: [
          scoreWorkers({
            inputs: ['cache', 'load'],
            score({ count, cache, load }, costs, request) {
              for (let row = 0; row < count; row += 1) {
                costs[row] =
                  load.activePrefillTokens[row]! / request.blockSize -
                  cache.deviceBlocks[row]! * parameters.weight;
              }
              // @ts-expect-error columns are read-only
              cache.deviceBlocks[0] = 1;
            },
          }),
          scoreEachWorker({
            inputs: ['occupancy', 'preferred-taint'],
            cost: ({ occupancy, preferredTaintMultiplier, workerId }) => {
              expectTypeOf(workerId).toEqualTypeOf<bigint>();
              return occupancy * preferredTaintMultiplier;
            },
          }),
        ],
        picker: pickLowestCost(rng),
      }),
    });
    expectTypeOf(definition).toEqualTypeOf<WorkerSelectionPolicyDefinition>();
  });

  it('may ask for lineage, all at once and one by one, but not for residency', () => {
    scoreWorkers({
      inputs: ['session-lineage'],
      score({ lineage }, costs) {
        expectTypeOf(lineage).toEqualTypeOf<SessionLineage | null>();
        costs.fill(lineage === null ? 0 : 1);
      },
    });
    filterWorkers({
      inputs: ['session-lineage'],
      // @ts-expect-error lineage may be switched off
      keep: ({ lineage, workerId, rank }) => lineage.paths('s', { workerId, rank }).length > 0,
    });
    // @ts-expect-error residency is for hint policies
    expect(pickWorker({ inputs: ['residency'], pick: () => 0 }).component).toBe('picker');
  });

  it('return what their contract says', () => {
    // @ts-expect-error scorers are synchronous
    scoreWorkers({ score: async () => undefined });
    // @ts-expect-error scorers write costs, they do not return them
    scoreWorkers({ score: () => 3 });
    // @ts-expect-error filters answer true or false
    filterWorkers({ keep: () => 1 });
    // @ts-expect-error pickers answer a row
    pickWorker({ pick: () => '0' });
    // @ts-expect-error the input is called occupancy
    pickWorker({ inputs: ['occupnacy'], pick: () => 0 });
  });

  it('come with a picker, or with a declared cost that brings its own', () => {
    defineWorkerSelectionPolicy({
      type: 'a',
      create: () => ({ cost: linearCost({ prefill_load_scale: 2 }) }),
    });
    // @ts-expect-error no picker
    defineWorkerSelectionPolicy({ type: 'a', create: () => ({ scorers: [] }) });
    // @ts-expect-error a cost has its own picker
    defineWorkerSelectionPolicy({ type: 'a', create: () => ({ cost: linearCost(), picker: first }) });
    // @ts-expect-error the weight is called prefill_load_scale
    expect(() => linearCost({ prefill_scale: 2 })).not.toThrow();
  });

  it('cannot be isolated in a thread: select and book are one step', () => {
    // @ts-expect-error no isolation for worker selection
    defineWorkerSelectionPolicy({ type: 'a', isolation: 'thread', create: () => ({ picker: first }) });
  });
});

describe('commitments', () => {
  const committing = pickWorker({
    inputs: ['kv-copy-locations'],
    pick: ({ copies }) => ({ row: 0, commitKvCopy: copies.copyableBlocks[0]! > 0 }),
  });

  it('let a picker commit a copy, and only then', () => {
    const definition = defineWorkerSelectionPolicy({
      type: 'a',
      parameters: z.strictObject({ commit: z.boolean().default(false) }),
      commitments: ['kv-copy'],
      commitsWhen: ({ commit }) => commit,
      create: () => ({ picker: committing }),
    });
    expectTypeOf(definition).toEqualTypeOf<WorkerSelectionPolicyDefinition>();
    // @ts-expect-error the commitment is missing
    defineWorkerSelectionPolicy({ type: 'a', create: () => ({ picker: committing }) });
    // @ts-expect-error the commitment is missing
    defineWorkerSelectionPolicy({ type: 'a', create: () => ({ cost: linearCostWithCopies() }) });
    // A policy with the commitment may pick plainly.
    defineWorkerSelectionPolicy({ type: 'a', commitments: ['kv-copy'], create: () => ({ picker: first }) });
    // @ts-expect-error a committing picker is no plain one
    const plain: WorkerPicker = committing;
    expect(plain).toBe(committing);
    // @ts-expect-error the commitment is called kv-copy
    defineWorkerSelectionPolicy({ type: 'a', commitments: ['kv-copies'], create: () => ({ picker: first }) });
  });

  it('give a hint policy the committed copy, and only then', () => {
    defineHintPolicy({
      type: 'a',
      commitments: ['kv-copy'],
      create: () => ({
        buildHints: ({ committedKvCopy }) => {
          expectTypeOf(committedKvCopy).toEqualTypeOf<CommittedKvCopy | null>();
          return [];
        },
      }),
    });
    defineHintPolicy({
      type: 'a',
      create: () => ({
        // @ts-expect-error the commitment is not declared
        buildHints: ({ committedKvCopy }) => (committedKvCopy ? [] : []),
      }),
    });
  });
});
