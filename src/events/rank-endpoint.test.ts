import { expect, test } from 'vitest';
import { rankEndpoint } from './rank-endpoint.ts';

test('ranks publish at the port of rank 0 plus their number, or under its name with a suffix', () => {
  expect(rankEndpoint('tcp://10.0.0.7:5557', 0)).toBe('tcp://10.0.0.7:5557');
  expect(rankEndpoint('tcp://10.0.0.7:5557', 3)).toBe('tcp://10.0.0.7:5560');
  expect(rankEndpoint('tcp://[::1]:5557', 1)).toBe('tcp://[::1]:5558');
  expect(rankEndpoint('inproc://events', 2)).toBe('inproc://events_dp2');
  expect(rankEndpoint('ipc:///run/events', 0)).toBe('ipc:///run/events');
});

test('an address that cannot be counted on has no other ranks', () => {
  expect(rankEndpoint('ipc:///run/events', 1)).toBeNull();
  expect(rankEndpoint('tcp://host:65535', 1)).toBeNull();
  expect(rankEndpoint('tcp://host', 1)).toBeNull();
  expect(rankEndpoint('tcp://host:*', 1)).toBeNull();
});
