import { expect, test } from 'vitest';
import { METRICS } from './metric-table.ts';
import { createMetrics } from './prometheus.ts';

const line = async (metrics: ReturnType<typeof createMetrics>, start: string): Promise<string[]> =>
  (await metrics.text()).split('\n').filter((text) => text.startsWith(start));

test('every name of the table stands in the text before any request', async () => {
  const text = await createMetrics().text();
  for (const [name, { kind }] of Object.entries(METRICS)) expect(text).toContain(`# TYPE ${name} ${kind}\n`);
});

test('counters add up per label set', async () => {
  const metrics = createMetrics();
  const labels = { door: 'gateway', model: 'tiny', status: '200' };
  metrics.count('pointsman_requests_total', labels);
  metrics.count('pointsman_requests_total', labels, 2);
  expect(await line(metrics, 'pointsman_requests_total')).toEqual([
    'pointsman_requests_total{door="gateway",model="tiny",status="200"} 3',
  ]);
});

test('histograms have the buckets of the table', async () => {
  const metrics = createMetrics();
  metrics.observe('pointsman_time_to_first_token_seconds', 0.03, { model: 'tiny' });
  const buckets = await line(metrics, 'pointsman_time_to_first_token_seconds_bucket');
  expect(buckets.slice(0, 3)).toEqual([
    'pointsman_time_to_first_token_seconds_bucket{le="0.01",model="tiny"} 0',
    'pointsman_time_to_first_token_seconds_bucket{le="0.025",model="tiny"} 0',
    'pointsman_time_to_first_token_seconds_bucket{le="0.05",model="tiny"} 1',
  ]);
});

test('gauges are read at each scrape, and several readers add up', async () => {
  const metrics = createMetrics();
  let bookings = 2;
  metrics.gauge('pointsman_bookings_active', () => bookings);
  metrics.gauge('pointsman_bookings_active', () => [{ labels: {}, value: 10 }]);
  expect(await line(metrics, 'pointsman_bookings_active')).toEqual(['pointsman_bookings_active 12']);
  bookings = 0;
  expect(await line(metrics, 'pointsman_bookings_active')).toEqual(['pointsman_bookings_active 10']);
});

test('two registries do not share anything', async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.count('pointsman_stripped_fields_total', { field: 'x' });
  expect(await line(other, 'pointsman_stripped_fields_total')).toEqual([]);
});

test('label sets beyond the cap are counted together', async () => {
  const metrics = createMetrics();
  for (let value = 0; value < 5000; value += 1) {
    metrics.count('pointsman_stripped_fields_total', { field: `f${value}` });
  }
  const series = await line(metrics, 'pointsman_stripped_fields_total');
  expect(series).toHaveLength(4097);
  expect(series.at(-1)).toBe('pointsman_stripped_fields_total{field="other"} 904');
});

test('a name of another kind is a mistake in the caller', () => {
  expect(() => createMetrics().count('pointsman_bookings_active')).toThrow(
    new TypeError('pointsman_bookings_active is not a counter of the metric table'),
  );
});
