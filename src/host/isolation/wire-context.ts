// A hint context by value: written where the booking is, read where the policy runs.
import { frozenSession } from '../frozen-session.ts';
import type { AnyHintContext } from '../hint-context.ts';
import { CopyLocationsSnapshot, frozenCopy, snapshotCopyLocations } from './copy-snapshot.ts';
import { LineageSnapshot, snapshotLineage } from './lineage-snapshot.ts';
import type { WireContext } from './messages.ts';

/** Members that are sent as they are, or in a form of their own. */
const SENT: ReadonlySet<string> = new Set([
  'requestId',
  'worker',
  'role',
  'partition',
  'promptTokens',
  'blockSize',
  'session',
  'capabilities',
  'cache',
  'load',
  'timing',
  'copyLocations',
  'committedKvCopy',
  'lineage',
]);

/**
 * Writes a context; copy locations are read to the end, so that they may be closed. An input without a form of its own here is null
 * in the thread.
 */
export function writeContext(context: Readonly<AnyHintContext>): WireContext {
  const { requestId, worker, role, partition, promptTokens, blockSize, session, capabilities } = context;
  const { cache, load, timing, copyLocations, committedKvCopy, lineage } = context;
  return {
    requestId,
    worker,
    role,
    partition,
    promptTokens,
    blockSize,
    session,
    capabilities: capabilities === null ? null : new Set(capabilities),
    ...(cache === undefined ? {} : { cache }),
    ...(load === undefined ? {} : { load }),
    ...(timing === undefined ? {} : { timing }),
    ...(copyLocations === undefined ? {} : { copyLocations: snapshotCopyLocations(copyLocations) }),
    ...(committedKvCopy === undefined ? {} : { committedKvCopy }),
    switchedOff: Object.keys(context).filter(
      (name) => !SENT.has(name) || (name === 'lineage' && lineage === null),
    ),
    lineage: lineage == null ? null : snapshotLineage(lineage, session, worker),
  };
}

/** The context as a policy sees it in process, its members in the same order. */
export function readContext(wire: WireContext): Readonly<AnyHintContext> {
  const {
    lineage,
    switchedOff,
    copyLocations,
    session,
    capabilities,
    cache,
    load,
    timing,
    committedKvCopy,
    ...facts
  } = wire;
  Object.freeze(facts.worker);
  Object.freeze(facts.partition);
  return Object.freeze({
    ...facts,
    session: frozenSession(session),
    capabilities,
    ...(cache === undefined ? {} : { cache: Object.freeze(cache) }),
    ...(load === undefined ? {} : { load: Object.freeze(load) }),
    ...(timing === undefined ? {} : { timing: timing === null ? null : Object.freeze(timing) }),
    ...(copyLocations === undefined ? {} : { copyLocations: new CopyLocationsSnapshot(copyLocations) }),
    ...(lineage === null ? {} : { lineage: new LineageSnapshot(lineage, session, facts.worker) }),
    ...Object.fromEntries(switchedOff.map((name) => [name, null])),
    ...(committedKvCopy === undefined
      ? {}
      : { committedKvCopy: committedKvCopy === null ? null : frozenCopy(committedKvCopy) }),
  });
}
