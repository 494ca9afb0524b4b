// Whatever comes over the port: taken when it has the shape of a message, refused otherwise, and never a throw.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type FromThread, parseFromThread, parseToThread, type ToThread, wireFields } from './messages.ts';

const rank = { workerId: 2n ** 64n - 1n, rank: 0 };
const copy = {
  source: rank,
  prefixBlocks: 2,
  additionalBlocks: 1,
  controlEndpoint: 'tcp://127.0.0.1:1',
  blockHashes: BigUint64Array.of(1n, 2n ** 64n - 1n),
  link: { latencyMs: 3, blockMs: 0.5, confidence: 0.25 },
};
const CALL: ToThread = {
  kind: 'call',
  call: 1,
  site: 2,
  nowMs: 0.5,
  context: {
    requestId: 'r',
    worker: rank,
    role: 'decode',
    partition: { model: 'm', routingGroup: 'g' },
    promptTokens: 1,
    blockSize: 16,
    session: { sessionId: 's', agentHeaders: { a: ['b'] } },
    capabilities: new Set(['kv.fetch@1.0']),
    copyLocations: { owners: [{ source: rank, prefixBlocks: 2 }], localPrefixBlocks: 0, copies: [copy] },
    committedKvCopy: copy,
    switchedOff: ['residency'],
    lineage: null,
  },
};
const TO_THREAD: readonly ToThread[] = [
  CALL,
  { kind: 'create', site: 1, seed: 2 ** 50, nowMs: 0, place: null },
  {
    kind: 'create',
    site: 1,
    seed: 1,
    nowMs: 0,
    place: { role: 'prefill', partition: { model: 'm', routingGroup: 'g' }, blockSize: 16 },
  },
  { kind: 'dispose', site: 1 },
  { kind: 'end' },
];
const FROM_THREAD: readonly FromThread[] = [
  { kind: 'ready', sameFiles: true },
  { kind: 'failed', text: 't' },
  { kind: 'created', site: 1 },
  { kind: 'refused', site: 1, text: 't' },
  { kind: 'ended' },
  { kind: 'output', call: 1, output: [{ type: 'a', version: '1', payload: { x: 1n } }] },
  {
    kind: 'dropped',
    call: 1,
    reason: 'threw',
    thrown: { text: 't', code: 'PM_X', details: { a: null, b: 1 } },
  },
  { kind: 'dropped', call: 1, reason: 'promise', thrown: null },
  { kind: 'log', level: 'info', message: 'm', fields: { a: 1n, b: Number.NaN, c: true, d: null } },
];

test.each(TO_THREAD)('$kind arrives in the thread as it was sent', (message) => {
  expect(parseToThread(structuredClone(message))).toEqual(message);
  expect(parseFromThread(message)).toBeNull();
});

test.each(FROM_THREAD)('$kind arrives in the router as it was sent', (message) => {
  expect(parseFromThread(structuredClone(message))).toEqual(message);
  expect(parseToThread(message)).toBeNull();
});

/** Every path to a member of a plain value. */
function pathsOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || value instanceof Set)
    return [];
  return Object.entries(value).flatMap(([key, inner]) => [[...path, key], ...pathsOf(inner, [...path, key])]);
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by;
  const copied: object = Array.isArray(value) ? [...value] : { ...Object(value) };
  Reflect.set(copied, key, replaced(Reflect.get(copied, key), rest, by));
  return copied;
}

/** Members that take any value at all. */
const FREE = /^output/;

test('one member of a wrong kind, or one too many, and the message is refused', () => {
  const wrong = fc.constantFrom<unknown>(undefined, Symbol('x'), () => 1, new Map(), new Date(0), [[]], -1.5);
  const one = fc.oneof(
    fc
      .constantFrom(...TO_THREAD)
      .map((message) => ({ message, parse: parseToThread as (given: unknown) => unknown })),
    fc
      .constantFrom(...FROM_THREAD)
      .map((message) => ({ message, parse: parseFromThread as (given: unknown) => unknown })),
  );
  fc.assert(
    fc.property(one, wrong, fc.nat(), ({ message, parse }, value, pick) => {
      const paths = pathsOf(message).filter((path) => !FREE.test(path.join('.')));
      const path = paths[pick % paths.length] ?? [];
      // Where a number may be any number, or a member may be left out, this one says nothing.
      fc.pre(
        !(value === -1.5 && /nowMs|seed|Blocks|Tokens|blockSize|fields|details|link\./.test(path.join('.'))),
      );
      fc.pre(
        !(
          value === undefined && /copyLocations$|committedKvCopy$|copies\.0$|owners\.0$/.test(path.join('.'))
        ),
      );
      expect(parse(replaced(message, path, value)), path.join('.')).toBeNull();
      expect(parse({ ...message, more: 1 })).toBeNull();
    }),
    { numRuns: 500 },
  );
});

test('anything else is refused without a throw', () => {
  fc.assert(
    fc.property(
      fc.anything({
        withBigInt: true,
        withMap: true,
        withSet: true,
        withTypedArray: true,
        withNullPrototype: true,
      }),
      (given) => {
        expect([parseToThread(given), parseFromThread(given)]).toEqual([null, null]);
      },
    ),
    { numRuns: 500 },
  );
});

test('lists and texts have a most', () => {
  const { context } = CALL;
  const owners = Array.from({ length: 33 }, () => ({ source: rank, prefixBlocks: 1 }));
  const many = {
    ...CALL,
    context: { ...context, copyLocations: { owners, localPrefixBlocks: 0, copies: [] } },
  };
  expect(parseToThread(many)).toBeNull();
  const lineage = (count: number) => ({
    ...CALL,
    context: {
      ...context,
      lineage: { uniqueBlocks: new BigUint64Array(count), exclusiveBlocks: new BigUint64Array(0) },
    },
  });
  expect(parseToThread(lineage(4096))).not.toBeNull();
  expect(parseToThread(lineage(4097))).toBeNull();
  expect(parseFromThread({ kind: 'failed', text: 'x'.repeat(2001) })).toBeNull();
});

test('log fields leave the thread cut to what a message takes', () => {
  fc.assert(
    fc.property(fc.anything({ withBigInt: true }), (given) => {
      const message = { kind: 'log', level: 'warn', message: 'm', fields: wireFields(given) };
      expect(parseFromThread(structuredClone(message))).not.toBeNull();
    }),
  );
  expect(wireFields({ a: 'x'.repeat(3000), b: { deep: 1 }, c: undefined })).toEqual({
    a: 'x'.repeat(2000),
    b: 'object',
    c: 'undefined',
  });
});
