// The transport of a run as the report sees it: counts the hints that reach the engines and what the engines made of them.
import type { EngineExchange, EngineRequest, EngineSink, EngineTransport } from '../engines/index.ts';
import type { RunCollector } from './run-collector.ts';

/** Passes everything on, and tells the collector of hints. */
export class ObservedTransport implements EngineTransport {
  readonly #inner: EngineTransport;
  readonly #collector: RunCollector;

  constructor(inner: EngineTransport, collector: RunCollector) {
    this.#inner = inner;
    this.#collector = collector;
  }

  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
    const { hint } = request;
    if (request.role === 'prefill') {
      this.#collector.dispatched(Number(request.worker.spec.id) - 1, request.tokens?.length ?? 0);
    }
    if (hint === null) return this.#inner.dispatch(request, sink);
    this.#collector.hinted(hint);
    return this.#inner.dispatch(request, {
      head: (status, headers, outcomes) => {
        this.#collector.outcomes(hint, outcomes);
        sink.head(status, headers, outcomes);
      },
      data: (bytes) => sink.data(bytes),
      tokens: (count) => sink.tokens(count),
      finished: (report) => sink.finished(report),
      failed: (error) => sink.failed(error),
    });
  }

  close(): void {
    this.#inner.close();
  }
}
