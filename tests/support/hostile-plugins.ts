// Plugins that break every rule they can, and a good one beside them whose envelopes must not change. Loaded from this file by
// the router under test.
import { z } from 'zod';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  filterWorkers,
  type HintAction,
  type KvCopyLocations,
  pickLowestCost,
  pickWorker,
  scoreWorkers,
} from '../../src/plugin/index.ts';

/** Tells everything it is told: whatever another policy could change of it shows in its envelope. */
export const good = defineHintPolicy({
  type: 'good',
  inputs: ['cache', 'load', 'kv-copy-locations'],
  actions: ['acme.good@1.0', 'kv.fetch@1.0'],
  create: ({ rng }) => ({
    buildHints({ copyLocations, cache, load, capabilities, session, worker, partition, ...rest }) {
      const copy = copyLocations.bestSource(1);
      const mark = {
        ...rest,
        worker: { ...worker },
        partition: { ...partition },
        session: session && { id: session.sessionId, headers: { ...session.agentHeaders } },
        cache: { ...cache },
        load: { ...load },
        capabilities: capabilities && [...capabilities],
        owners: copyLocations.owners.map(({ source, prefixBlocks }) => ({ ...source, prefixBlocks })),
        local: copyLocations.localPrefixBlocks,
        draw: rng.next(),
      };
      const actions: HintAction[] = [{ type: 'acme.good', version: '1.0', payload: mark }];
      if (copy !== null) {
        const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
        actions.push({ type: 'kv.fetch', version: '1.0', payload });
      }
      return actions;
    },
  }),
});

const bad = (payload: unknown): unknown[] => [{ type: 'acme.bad', version: '1.0', payload }];

/** A thing that throws whatever is done with it. */
const untouchable: object = new Proxy(
  {},
  {
    get() {
      throw new Error('not yours');
    },
    has() {
      throw new Error('not yours');
    },
    ownKeys() {
      throw new Error('not yours');
    },
    getPrototypeOf() {
      throw new Error('not yours');
    },
  },
);

const cyclic: Record<string, unknown> = {};
cyclic.self = [cyclic];

const throwingGetter = Object.defineProperty({}, 'length', {
  enumerable: true,
  get() {
    throw untouchable;
  },
});

/** Odd things to throw, in turn. */
const ODD: readonly unknown[] = [
  undefined,
  null,
  0,
  Number.NaN,
  'text',
  Symbol('odd'),
  10n ** 30n,
  untouchable,
  throwingGetter,
  Object.freeze(new Error('frozen')),
  Object.defineProperty(new Error('x'), 'message', {
    get() {
      throw new Error('no message');
    },
  }),
  () => untouchable,
];

let slowSum = 0;

/** Writes to everything that can be reached from a value, by every means there is. */
function scribble(value: unknown, seen = new Set<unknown>()): void {
  if (typeof value !== 'object' || value === null || seen.has(value) || seen.size > 200) return;
  seen.add(value);
  const tries: (() => unknown)[] = [];
  if (value instanceof Set)
    tries.push(
      () => value.clear(),
      () => value.add('acme.bad@1.0'),
    );
  if (value instanceof BigUint64Array) tries.push(() => value.fill(666n));
  else if (ArrayBuffer.isView(value))
    tries.push(() => Reflect.apply(Reflect.get(value, 'fill'), value, [666]));
  for (const key of Reflect.ownKeys(value)) {
    if (ArrayBuffer.isView(value)) break;
    tries.push(
      () => scribble(Reflect.get(value, key), seen),
      () => Reflect.set(value, key, 666),
      () => Reflect.defineProperty(value, key, { value: 666 }),
      () => Reflect.deleteProperty(value, key),
    );
  }
  // Members of the class, in the way of which nothing may be put.
  for (const key of ['bestSource', 'owners', 'localPrefixBlocks', 'toJSON', 'then', 'capabilities']) {
    tries.push(
      () => scribble(Reflect.get(value, key), seen),
      () => Reflect.defineProperty(value, key, { value: () => [], configurable: true }),
    );
  }
  tries.push(() => Reflect.setPrototypeOf(value, null));
  for (const attempt of tries) {
    try {
      attempt();
    } catch {
      // On to the next.
    }
  }
}

/** Gives away every array that can be reached, as a message to another thread does: here it has no elements any more. */
function giveAway(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  if (!ArrayBuffer.isView(value)) for (const one of Object.values(value)) giveAway(one);
  else if (value.buffer instanceof ArrayBuffer && value.byteLength > 0) {
    structuredClone(value.buffer, { transfer: [value.buffer] });
  }
}

const kept: unknown[] = [];
const keptPayload = { text: 'as sent', list: [1, 2], hashes: new BigUint64Array(2) };
let turn = 0;
const next = <T>(list: readonly T[]): T => list[turn++ % list.length]!;

/** What a hostile hint policy answers to its context, by its name. */
const HINTS: Readonly<Record<string, (context: object, copies: KvCopyLocations) => unknown>> = {
  throws() {
    throw new RangeError('always');
  },
  throws_odd_values() {
    throw next(ODD);
  },
  nan: () => next([bad({ x: Number.NaN }), bad({ x: [1, { y: Number.NEGATIVE_INFINITY }] }), Number.NaN]),
  huge: () =>
    next<() => unknown>([
      () => new Array(2 ** 32 - 1),
      () => Array(100_000).fill(bad({})[0]),
      () => bad({ list: new Array(2 ** 31) }),
      () => bad({ hashes: new BigUint64Array(200_000) }),
      () => bad({ text: 'x'.repeat(2_000_000) }),
    ])(),
  cyclic: () => next([bad(cyclic), bad({ cyclic }), [[cyclic]], [cyclic]]),
  wrong_types: () =>
    next<unknown>([
      undefined,
      null,
      {},
      'actions',
      7,
      [null],
      [bad],
      bad(null),
      bad([]),
      bad(new Date()),
      [{ type: 7, version: {}, payload: {} }],
      [{ type: 'acme.bad', version: '1.0 ', payload: {} }],
    ]),
  throwing_getters: () =>
    next<unknown>([untouchable, [untouchable], bad(untouchable), bad({ a: untouchable }), throwingGetter]),
  promises: () =>
    next<() => unknown>([
      () => Promise.resolve(bad({})),
      () => Promise.reject(new Error('later')),
      () => Object.fromEntries([['then', (done: (value: unknown) => void) => done(bad({}))]]),
      () => bad({ later: Promise.resolve(1) }),
    ])(),
  mutates(context, copies) {
    scribble(context);
    scribble(copies.bestSource(1));
    scribble(copies);
    return [];
  },
  gives_away(context, copies) {
    giveAway(context);
    giveAway(copies.bestSource(1));
    return [];
  },
  keeps_references(context, copies) {
    for (const old of kept) scribble(old);
    const copy = copies.bestSource(1);
    kept.splice(0, kept.length > 20 ? 5 : 0);
    kept.push(context, copy, copies.owners, copy?.blockHashes, copies);
    keptPayload.text = String(turn++);
    keptPayload.list.push(turn);
    keptPayload.list.splice(0, keptPayload.list.length - 3);
    keptPayload.hashes.fill(BigInt(turn));
    return bad(keptPayload);
  },
  slow() {
    for (let round = 0; round < 200_000; round += 1) slowSum += round % 7;
    return slowSum < 0 ? bad({}) : [];
  },
};

/** Names of the hostile hint policies. */
export const HOSTILE_HINTS: readonly string[] = Object.keys(HINTS);

/** A hostile hint policy; its parameter says which. */
export const hostile = defineHintPolicy({
  type: 'hostile',
  parameters: z.strictObject({ which: z.enum(HOSTILE_HINTS) }),
  inputs: ['cache', 'load', 'kv-copy-locations'],
  create: ({ parameters }) => ({
    // The cast is the hostility: types are what such a plugin does not care about.
    buildHints: (context) => HINTS[parameters.which]?.(context, context.copyLocations) as HintAction[],
  }),
});

/** What a broken worker selection does in its picker, its scorer or its filter, by its name. */
const PICKS: Readonly<Record<string, () => unknown>> = {
  throws_odd_values() {
    throw next(ODD);
  },
  rows_out_of_range: () =>
    next<unknown>([-1, 1e9, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '0', 0n]),
  wrong_picks: () => next<unknown>([undefined, null, untouchable, [0], { row: 0 }, true]),
  promised_picks: () =>
    next<() => unknown>([() => Promise.resolve(0), () => Promise.reject(new Error('later'))])(),
  costs_left_out: () => 'scorer',
  costs_not_finite: () => 'scorer',
  filters_that_throw: () => 'filter',
  filters_that_give_away: () => 'filter',
  scorers_that_give_away: () => 'scorer',
  scorers_that_give_columns_away: () => 'scorer',
  pickers_that_give_away: () => 'picker',
};

/** Names of the broken worker selections. */
export const BROKEN_SELECTIONS: readonly string[] = Object.keys(PICKS);

/** A worker selection that fails in every decision; its parameter says how. */
export const broken = defineWorkerSelectionPolicy({
  type: 'broken',
  parameters: z.strictObject({ how: z.enum(BROKEN_SELECTIONS) }),
  create: ({ parameters: { how } }) => ({
    filters: [
      {
        ...filterWorkers({ inputs: ['cache', 'load'], keep: () => true }),
        keep(candidates: object) {
          if (how === 'filters_that_throw') throw untouchable;
          if (how === 'filters_that_give_away') giveAway(candidates);
          return true;
        },
      },
    ],
    scorers: [
      scoreWorkers({
        inputs: ['cache', 'load', 'occupancy', 'preferred-taint'],
        score(candidates, costs, request) {
          scribble(candidates);
          scribble(request);
          costs.fill(how === 'costs_not_finite' ? Number.NaN : 1);
          if (how === 'costs_left_out') costs[0] = Number.NaN;
          if (how === 'scorers_that_give_away') giveAway(costs);
          if (how === 'scorers_that_give_columns_away') giveAway(candidates);
        },
      }),
    ],
    picker: pickWorker({
      inputs: ['load'],
      pick(table) {
        if (how !== 'pickers_that_give_away') return PICKS[how]?.() as number;
        giveAway(table);
        return 0;
      },
    }),
  }),
});

/** Least prompt tokens booked; with `scribbles` it also writes to all it is shown, now and later. */
export const scribbler = defineWorkerSelectionPolicy({
  type: 'scribbler',
  parameters: z.strictObject({ scribbles: z.boolean() }),
  create: ({ parameters: { scribbles }, rng }) => ({
    scorers: [
      scoreWorkers({
        inputs: ['cache', 'load'],
        score({ cache, load, count }, costs) {
          for (let row = 0; row < count; row += 1) {
            costs[row] = (load.activePrefillTokens[row] ?? 0) - (cache.cachedTokens[row] ?? 0);
          }
          if (!scribbles) return;
          for (const columns of [...kept, cache, load]) scribble(columns);
          kept.splice(0, kept.length > 20 ? 2 : 0, { ...cache }, { ...load });
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});
