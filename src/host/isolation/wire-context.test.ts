import { expect, test } from 'vitest';
import type { SessionLineage } from '../../plugin/index.ts';
import { hintBooking } from '../hint.fixtures.ts';
import { HintContexts, readsOf } from '../hint-context.ts';
import { parseToThread } from './messages.ts';
import { readContext, writeContext } from './wire-context.ts';

/** A policy without inputs. */
const BARE = { reads: readsOf([]), seesCommits: false };

test('a context arrives frozen, equal to what was sent, with null for inputs that are switched off', () => {
  const agentHeaders = { 'x-a': ['1'] };
  const session = { compaction: true, sessionId: 's', agentHeaders };
  const sent = {
    ...new HintContexts().of(BARE, hintBooking({ session }), new Set(['kv.fetch@1.0']), null, null),
    residency: null,
  };
  const message = { kind: 'call', call: 1, site: 1, nowMs: 0, context: writeContext(sent) };
  const arrived = parseToThread(structuredClone(message));
  if (arrived?.kind !== 'call') throw new Error('it was refused');
  const read = readContext(arrived.context);
  expect(read).toEqual(sent);
  expect(Object.keys(read)).toEqual(Object.keys(sent));
  expect(Object.keys(read.session ?? {})).toEqual(['compaction', 'sessionId', 'agentHeaders']);
  for (const part of [read, read.worker, read.partition, read.session, read.session?.agentHeaders]) {
    expect(Object.isFrozen(part)).toBe(true);
  }
});

test('the lineage arrives as the first blocks of the own session on the booked rank, and refuses other questions', () => {
  const session = { sessionId: 's', agentHeaders: {} };
  const base = new HintContexts().of(BARE, hintBooking({ session }), null, null, null);
  const blocks = BigUint64Array.from({ length: 5000 }, (_, at) => BigInt(at));
  const asked: unknown[] = [];
  const lineage: SessionLineage = {
    nodeOf: () => null,
    node: () => null,
    frontiers: () => [],
    paths: () => [],
    uniqueBlocks(...question) {
      asked.push(question);
      return blocks;
    },
    exclusiveBlocks: () => blocks.slice(0, 2),
  };
  const message = { kind: 'call', call: 1, site: 1, nowMs: 0, context: writeContext({ ...base, lineage }) };
  const arrived = parseToThread(structuredClone(message));
  if (arrived?.kind !== 'call') throw new Error('it was refused');
  const read = readContext(arrived.context).lineage!;
  expect(asked).toEqual([['s', base.worker]]);
  expect(read.uniqueBlocks('s', { ...base.worker })).toEqual(blocks.slice(0, 4096));
  expect(read.exclusiveBlocks('s', base.worker)).toEqual(BigUint64Array.of(0n, 1n));
  read.exclusiveBlocks('s', base.worker).fill(9n);
  expect(read.exclusiveBlocks('s', base.worker)).toEqual(BigUint64Array.of(0n, 1n));
  const refused = expect.objectContaining({ code: 'PM_PLUGIN_INVALID' });
  expect(() => read.uniqueBlocks('t', base.worker)).toThrow(refused);
  expect(() => read.exclusiveBlocks('s', { ...base.worker, rank: 9 })).toThrow(refused);
  for (const other of [
    () => read.nodeOf(1n),
    () => read.node(1),
    () => read.frontiers('s'),
    () => read.paths('s', base.worker),
  ])
    expect(other).toThrow(refused);
  expect(readContext(writeContext({ ...base, lineage: null })).lineage).toBeNull();
  expect('lineage' in readContext(writeContext(base))).toBe(false);
  const none = readContext(writeContext({ ...base, session: null, lineage })).lineage!;
  expect(() => none.uniqueBlocks('s', base.worker)).toThrow(refused);
});
