// Says in the log what happens to workers.
import type { FleetListener, Worker } from '../fleet/index.ts';
import type { LogFields, Logger } from '../plugin/index.ts';

/** A listener that logs who joins, leaves and changes state. Let it listen once the workers of the start are there. */
export function fleetLog(log: Logger): FleetListener {
  return {
    added: (worker) => log.info('a worker joined', { ...fieldsOf(worker), role: worker.spec.role }),
    removed: (worker) => log.info('a worker left', fieldsOf(worker)),
    restarted: (worker) =>
      log.info('an engine started anew: what it had cached is forgotten', fieldsOf(worker)),
    stateChanged(worker, from) {
      const fields = { ...fieldsOf(worker), from };
      switch (worker.state) {
        case 'suspect':
          log.warn('a worker is suspect: it gets no requests until a health check succeeds', fields);
          break;
        case 'gone':
          log.warn('a worker is gone: its health checks fail, and what it had cached is forgotten', fields);
          break;
        case 'draining':
          log.info('a worker drains: it finishes what it has', fields);
          break;
        case 'ready':
          log.info('a worker is back: it gets requests again', fields);
      }
    },
  };
}

function fieldsOf({ spec }: Worker): LogFields {
  return { worker: spec.id, model: spec.model, url: spec.url };
}
