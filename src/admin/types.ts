// What the admin API shows and where it gets it: every part is handed in, so that it can run beside any door.
import type { ThresholdChange } from '../config/index.ts';
import type { DecisionReader, Readiness } from '../observe/index.ts';
import type { Logger } from '../plugin/index.ts';

/** Something that happened, as `/events` passes it on. */
export interface AdminEvent {
  /** For example `decision` or `worker`. */
  readonly type: string;
  /** Written as exact JSON. */
  readonly data: unknown;
}

/** A source of live events. */
export interface AdminEvents {
  /** Calls `listener` for each event from now on; returns a function that stops it. */
  subscribe(listener: (event: AdminEvent) => void): () => void;
}

/** Parts of the admin API. */
export interface AdminOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** null = none needed; then only requests addressed to this machine are answered. */
  readonly token: string | null;
  readonly decisions: DecisionReader;
  readonly metrics: { text(): Promise<string>; readonly contentType?: string };
  /** Bodies of `/workers`, `/plugins`, `/config`, read at each request; secrets already hidden. */
  workers(): unknown;
  plugins(): unknown;
  config(): unknown;
  ready(): Readiness;
  /** Reads configuration and plugins again; the body of the answer, with `result: 'failed'` where nothing changed. */
  reload?(): Promise<{ readonly result: string }>;
  /** Busy thresholds of every model; absent: `/busy_threshold` does not exist. */
  readonly busyThresholds?: {
    list(): unknown;
    /** Takes a change, from the next decision on; the model as `list` shows it. Null = there is no such model. */
    change(change: ThresholdChange): unknown;
  };
  /** What was learnt of how long workers take, in the form of a timing profile; absent: `/timing_profile` does not exist. */
  timingProfile?(): unknown;
  /** Absent: `/events` does not exist. */
  readonly events?: AdminEvents;
  /** Addresses to show on the plain page, by name. */
  readonly addresses?: Readonly<Record<string, string>>;
  /** Told about requests that failed inside. */
  readonly log: Logger;
}

/** A running admin API. */
export interface AdminServer {
  /** `http://127.0.0.1:8001`, with the real port. */
  readonly url: string;
  readonly port: number;
  /** Ends event streams, lets running answers finish, frees the port. */
  close(): Promise<void>;
}
