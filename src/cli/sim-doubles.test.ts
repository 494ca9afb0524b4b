import { describe, expect, it } from 'vitest';
import { doubleFaults, refuseForeignOptions, startDouble } from './sim-doubles.ts';

const options = {
  hints: 'none',
  eventWire: 'map',
  hashSeed: 0,
  seed: 0,
  speed: 1000,
  bodyBytes: 1_000_000,
  warn: () => undefined,
} as const;

describe('pointsman sim --shape vllm', () => {
  it('tells the addresses of the double as those of an engine', async () => {
    const events = '{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}';
    const args = ['org/model', '--port=0', '--block-size', '32', '--kv-events-config', events];
    const { close, engines } = await startDouble(args, options);
    try {
      expect(engines).toEqual([
        expect.objectContaining({
          model: 'org/model',
          block_size: 32,
          kv_events: expect.stringMatching(/^tcp:\/\/127\.0\.0\.1:\d+$/),
          kv_events_replay: expect.stringMatching(/^tcp:/),
        }),
      ]);
      expect((await fetch(`${engines[0]?.url}/version`)).status).toBe(200);
    } finally {
      await close(0);
    }
  });

  it.each([
    [['--frobnicate'], '--frobnicate is not known to the double'],
    [['a', 'b'], '"b" is a second model'],
    [['--block-size', 'x'], '--block-size is "x"; it must be a whole number from 1 to 2147483648'],
    [['--block-size'], '--block-size takes a value'],
    [['--scheduling-policy', 'lifo'], '--scheduling-policy must be fcfs or priority'],
    [['--kv-events-config', '{'], '--kv-events-config is not JSON'],
    [['--kv-events-config', '{"endpiont":"x"}'], '--kv-events-config:  Unrecognized key: "endpiont"'],
  ])('refuses the arguments %j', async (args, problem) => {
    await expect(startDouble(args, options)).rejects.toThrow(
      `the arguments of vllm serve cannot be used: ${problem}`,
    );
  });

  it('refuses options that its server would not follow, and those of doubles for simulated engines', () => {
    expect(() => refuseForeignOptions('vllm', ['shape', 'speed', 'hints'])).not.toThrow();
    expect(() => refuseForeignOptions('sim', ['blockSize', 'speed'])).not.toThrow();
    expect(() => refuseForeignOptions('vllm', ['blockSize'])).toThrow(
      '--block-size means nothing to --shape vllm; the server takes its own arguments behind --, or leave it out',
    );
    expect(() => refuseForeignOptions('sim', ['hints'])).toThrow(
      '--hints means nothing to --shape sim; give --shape vllm as well, or leave it out',
    );
  });

  it('collects faults', () => {
    expect(doubleFaults('events-off', doubleFaults('announced-block-size=8'))).toEqual({
      eventsOff: true,
      announcedBlockSize: 8,
    });
    expect(() => doubleFaults('sleepy')).toThrow('It must be one of announced-block-size,');
  });
});
