import { expect, test } from 'vitest';
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
