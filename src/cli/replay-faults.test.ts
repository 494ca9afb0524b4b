import { expect, it } from 'vitest';
import { watchPolicies } from './replay-faults.ts';

it('says each thing once in a run, however often it comes and however much has failed by then', () => {
  const lines: string[] = [];
  const { log } = watchPolicies((line) => lines.push(line));
  const trip = (plugin: string, failures: number): void =>
    log.warn('a plugin is skipped for a while', { plugin, failures, overruns: 0, skip_ms: 10_000 });
  trip('first', 5);
  trip('first', 6);
  trip('second', 5);
  log.error('own words');
  log.error('own words');
  expect(lines).toEqual([
    'a plugin is skipped for a while (plugin: first, failures: 5, overruns: 0, skip_ms: 10000)',
    'a plugin is skipped for a while (plugin: second, failures: 5, overruns: 0, skip_ms: 10000)',
    'own words',
  ]);
});

it('hands on 20 lines of a run', () => {
  const lines: string[] = [];
  const { log } = watchPolicies((line) => lines.push(line));
  for (let n = 0; n < 30; n += 1) log.warn(`line ${n}`);
  expect(lines).toHaveLength(20);
});
