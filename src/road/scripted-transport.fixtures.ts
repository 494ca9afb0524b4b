// Engines that a test plays.
import type { EngineExchange, EngineRequest, EngineSink, EngineTransport } from '../engines/index.ts';

/** What an engine was asked, and the levers of its answer. */
export interface Dispatched {
  readonly request: EngineRequest;
  readonly sink: EngineSink;
  aborts: number;
  pauses: number;
  resumes: number;
}

/** Engines that only record; the test plays their answers on `dispatched[i].sink`. */
export class ScriptedTransport implements EngineTransport {
  readonly dispatched: Dispatched[] = [];
  /** Runs inside `dispatch`, before it returns. */
  during: ((dispatched: Dispatched) => void) | null = null;

  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
    const entry: Dispatched = { request, sink, aborts: 0, pauses: 0, resumes: 0 };
    this.dispatched.push(entry);
    this.during?.(entry);
    return {
      abort: () => {
        entry.aborts += 1;
      },
      pause: () => {
        entry.pauses += 1;
      },
      resume: () => {
        entry.resumes += 1;
      },
    };
  }

  close(): void {}

  /** The last request that arrived at an engine. */
  get last(): Dispatched {
    const last = this.dispatched.at(-1);
    if (last === undefined) throw new Error('nothing was dispatched');
    return last;
  }
}
