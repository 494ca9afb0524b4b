// A hint context by value: written where the booking is, read where the policy runs.
import { frozenSession } from '../frozen-session.ts';
import type { AnyHintContext } from '../hint-context.ts';
import { CopyLocationsSnapshot, frozenCopy, snapshotCopyLocations } from './copy-snapshot.ts';
import type { WireContext } from './messages.ts';

/** Writes a context; copy locations are read to the end, so that they may be closed. */
export function writeContext(context: Readonly<AnyHintContext>): WireContext {
  const { copyLocations, capabilities, ...facts } = context;
  return {
    ...facts,
    capabilities: capabilities === null ? null : new Set(capabilities),
    ...(copyLocations === undefined ? {} : { copyLocations: snapshotCopyLocations(copyLocations) }),
    lineage: null,
  };
}

/** The context as a policy sees it in process, its members in the same order. */
export function readContext(wire: WireContext): Readonly<AnyHintContext> {
  const { lineage: _, copyLocations, session, capabilities, cache, load, committedKvCopy, ...facts } = wire;
  Object.freeze(facts.worker);
  Object.freeze(facts.partition);
  return Object.freeze({
    ...facts,
    session: frozenSession(session),
    capabilities,
    ...(cache === undefined ? {} : { cache: Object.freeze(cache) }),
    ...(load === undefined ? {} : { load: Object.freeze(load) }),
    ...(copyLocations === undefined ? {} : { copyLocations: new CopyLocationsSnapshot(copyLocations) }),
    ...(committedKvCopy === undefined
      ? {}
      : { committedKvCopy: committedKvCopy === null ? null : frozenCopy(committedKvCopy) }),
  });
}
