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
    const { close, engines } = await startDouble('vllm', args, options);
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
    await expect(startDouble('vllm', args, options)).rejects.toThrow(
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

  it.each([
    ['sglang', 'eventWire', '--event-wire'],
    ['llamacpp', 'hints', '--hints'],
    ['llamacpp', 'hashSeed', '--hash-seed'],
    ['sglang', 'count', '--count'],
  ] as const)('refuses an option that %s would not follow: %s', (shape, name, option) => {
    expect(() => refuseForeignOptions(shape, ['speed', name])).toThrow(
      `${option} means nothing to --shape ${shape}; the server takes its own arguments behind --, or leave it out`,
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

describe('pointsman sim --shape sglang', () => {
  it('tells the addresses of the double as those of an engine, and has metrics where its flags ask for them', async () => {
    const events = '{"publisher":"zmq","endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}';
    const args = [
      '--model-path',
      'org/model',
      '--port',
      '0',
      '--page-size',
      '32',
      '--kv-events-config',
      events,
    ];
    for (const flags of [args, [...args, '--enable-metrics']]) {
      const { close, engines } = await startDouble('sglang', flags, { ...options, hints: 'envelope' });
      try {
        expect(engines).toEqual([
          expect.objectContaining({
            model: 'org/model',
            block_size: 32,
            kv_events: expect.stringMatching(/^tcp:\/\/127\.0\.0\.1:\d+$/),
            kv_events_replay: expect.stringMatching(/^tcp:/),
          }),
        ]);
        const metrics = await fetch(`${engines[0]?.url}/metrics`);
        const page = await metrics.text();
        expect(metrics.status).toBe(flags === args ? 404 : 200);
        if (flags !== args) expect(page).toMatch(/^sglang:num_running_reqs\{.*dp_rank="0"\} 0$/m);
      } finally {
        await close(0);
      }
    }
  });

  it.each([
    [['--frobnicate'], '--frobnicate is not known to the double'],
    [['--page-size', 'x'], '--page-size is "x"; it must be a whole number from 1 to 2147483648'],
    [['--page-size'], '--page-size takes a value'],
    [['--disaggregation-mode', 'both'], '--disaggregation-mode must be null, prefill or decode'],
  ])('refuses the arguments %j', async (args, problem) => {
    await expect(startDouble('sglang', args, options)).rejects.toThrow(
      `the arguments of sglang.launch_server cannot be used: ${problem}`,
    );
  });
});

describe('pointsman sim --shape llamacpp', () => {
  it('plays llama-server by its own flags, short ones too', async () => {
    const args = ['-m', 'model.gguf', '-a', 'mine', '--port', '0', '-np', '4', '-c', '4096', '--metrics'];
    const { close, engines } = await startDouble('llamacpp', args, options);
    try {
      expect(engines).toEqual([expect.objectContaining({ model: 'mine', kv_events: '' })]);
      const props = await (await fetch(`${engines[0]?.url}/props`)).json();
      expect(props).toMatchObject({
        total_slots: 4,
        model_alias: 'mine',
        default_generation_settings: { n_ctx: 1024 },
      });
      expect((await fetch(`${engines[0]?.url}/metrics`)).status).toBe(200);
    } finally {
      await close(0);
    }
  });

  it.each([
    [['--frobnicate'], '--frobnicate is not known to the double'],
    [['--parallel', '0'], '--parallel is "0"; it must be a whole number from 1 to 1024'],
    [['-np'], '-np takes a value'],
    [['-c', '2', '-np', '3'], '--ctx-size 2 has no token for each of 3 slots'],
  ])('refuses the arguments %j', async (args, problem) => {
    await expect(startDouble('llamacpp', args, options)).rejects.toThrow(
      `the arguments of llama-server cannot be used: ${problem}`,
    );
  });
});
