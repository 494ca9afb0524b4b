import { InvalidArgumentError } from 'commander';
import { expect, it } from 'vitest';
import { engineRestarts, eventFaults } from './fault-options.ts';

it('event faults are read in any order, and what is left out does not happen', () => {
  const none = { drop: 0, duplicate: 0, reorder: 0, window: 4, delayMs: 0 };
  expect(eventFaults('drop=0.3')).toEqual({ ...none, drop: 0.3 });
  expect(eventFaults('delay=1.5s,window=8,reorder=0.05,duplicate=1')).toEqual({
    ...none,
    delayMs: 1500,
    window: 8,
    reorder: 0.05,
    duplicate: 1,
  });
});

it.each([
  '',
  'drop',
  'drop=2',
  'drop=-1',
  'drop=0.1=2',
  'drop=0.1,drop=0.2',
  'lose=0.1',
  'window=0',
  'window=1025',
  'window=1.5',
  'delay=5',
  'delay=2h',
  'constructor=1',
  'delay=1toString',
])('event faults %j are refused', (text) => {
  expect(() => eventFaults(text)).toThrow(InvalidArgumentError);
  expect(() => eventFaults(text)).toThrow(
    'it must look like drop=0.3,duplicate=0.05,reorder=0.05,window=4,delay=200ms',
  );
});

it('restarts are collected in the order given', () => {
  expect(engineRestarts('1@500ms', engineRestarts('2@10m'))).toEqual([
    { worker: 2, atMs: 600_000 },
    { worker: 1, atMs: 500 },
  ]);
});

it.each(['', '2', '0@1s', '2@', '2@10', '@1s', 'x@1s', '2@1d', '2@300h', '1@1s@2s'])(
  'restart %j is refused',
  (text) => {
    expect(() => engineRestarts(text)).toThrow(
      'It must look like 2@10m: the engine from 1, then a time in ms, s, m or h.',
    );
  },
);
