import { expect, it } from 'vitest';
import { publisherPlace } from './event-address.ts';

it('listens on wildcards and connects to hosts, each rank one port on', () => {
  expect(publisherPlace('tcp://*:5557', 0)).toEqual({ address: 'tcp://127.0.0.1:5557', connects: false });
  expect(publisherPlace('tcp://*:5557', 2)).toEqual({ address: 'tcp://127.0.0.1:5559', connects: false });
  expect(publisherPlace('tcp://[::]:5557', 1)).toEqual({ address: 'tcp://127.0.0.1:5558', connects: false });
  expect(publisherPlace('tcp://router:5557', 1)).toEqual({ address: 'tcp://127.0.0.1:5558', connects: true });
  // Newer SGLang listens there, vLLM does not.
  expect(publisherPlace('tcp://0.0.0.0:5557', 0).connects).toBe(true);
  expect(publisherPlace('tcp://*:0', 3)).toEqual({ address: 'tcp://127.0.0.1:*', connects: false });
});

it.each(['udp://*:1', 'tcp://*', 'tcp://*:70000', 'tcp://host:0', 'ipc:///tmp/x'])(
  'refuses %s for rank 1',
  (text) => {
    expect(() => publisherPlace(text, 1)).toThrow('is no address for the KV events of rank 1');
  },
);
