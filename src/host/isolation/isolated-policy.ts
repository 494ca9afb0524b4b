// A hint policy in a thread as the hint stage sees it.
import type { Partition, Role } from '../../plugin/index.ts';
import type { WireWorkers } from './classifier-messages.ts';
import type { FromThread, WireContext } from './messages.ts';

/** How a call ended. */
export type ThreadAnswer =
  | { readonly kind: 'output'; readonly output: unknown }
  | {
      readonly kind: 'dropped';
      readonly reason: Extract<FromThread, { kind: 'dropped' }>['reason'];
      readonly error: string | null;
    }
  /** The deadline passed. `hangs`: the thread did nothing else meanwhile and is being replaced; false = it was busy with calls before. */
  | { readonly kind: 'timed_out'; readonly hangs: boolean }
  /** The thread ended during the call. */
  | { readonly kind: 'thread_died'; readonly error: string }
  /** Another call took the thread with it. */
  | { readonly kind: 'lost' };

/** A hint policy of one partition and role, in a thread. */
export interface IsolatedPolicy {
  /** How long an answer is waited for. */
  readonly deadlineMs: number;
  /** False while the thread is being replaced, or has calls left that nobody waits for any more. */
  readonly ready: boolean;
  /** Calls it; `answered` is called once, after `call` returned. Only while it is ready. */
  call(context: WireContext, answered: (answer: ThreadAnswer) => void): void;
  /** After the last one of an instance its thread ends. */
  dispose(): Promise<void>;
}

/** Where a policy is created for. */
export interface ThreadSite {
  readonly seed: number;
  /** Null = scope `shared`. */
  readonly place: HintPlace | ClassifierPlace | null;
}

interface HintPlace {
  readonly role: Role;
  readonly partition: Partition;
  readonly blockSize: number;
}

/** The place of a classifier. */
export interface ClassifierPlace {
  readonly partition: Partition;
  /** Null = not configured. */
  readonly blockSize: number | null;
  /** By value, as they are now. */
  readonly workers: () => WireWorkers;
}
