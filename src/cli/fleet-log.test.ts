import { expect, test } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import { Fleet } from '../fleet/index.ts';
import { type LogFields, NO_LOG } from '../plugin/index.ts';
import { fleetLog } from './fleet-log.ts';

test('whoever joins, turns suspect, is lost, comes back and leaves is logged where it is', () => {
  const lines: [string, string, LogFields | undefined][] = [];
  const fleet = new Fleet();
  fleet.listen(
    fleetLog({
      ...NO_LOG,
      info: (message, fields) => lines.push(['info', message, fields]),
      warn: (message, fields) => lines.push(['warn', message, fields]),
    }),
  );
  const { spec } = workerFixture({ id: 7n });
  fleet.add(spec);
  for (const state of ['suspect', 'gone', 'ready', 'draining'] as const) fleet.setState(7n, state);
  fleet.remove(7n);
  const worker = { worker: 7n, model: spec.model, url: spec.url };
  expect(lines).toEqual([
    ['info', 'a worker joined', { ...worker, role: 'aggregated' }],
    [
      'warn',
      'a worker is suspect: it gets no requests until a health check succeeds',
      { ...worker, from: 'ready' },
    ],
    [
      'warn',
      'a worker is gone: its health checks fail, and what it had cached is forgotten',
      { ...worker, from: 'suspect' },
    ],
    ['info', 'a worker is back: it gets requests again', { ...worker, from: 'gone' }],
    ['info', 'a worker drains: it finishes what it has', { ...worker, from: 'ready' }],
    ['info', 'a worker left', worker],
  ]);
});
