import { describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import type { EngineRequest } from '../engines/index.ts';
import { BlockSizes, Fleet } from '../fleet/index.ts';
import type { ParityMonitor } from '../parity/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { sendParityProbes } from './parity-probes.ts';

const YAML = (servedAs: string): string => `
models: { m: { served_as: ${servedAs}, block_size: 4 } }
workers: []
parity: { probe_prompts: true, probe_every: 60s }
`;

/** Probes to workers 1 and 2, of two ranks each; engines answer at once unless told otherwise. */
function probing(over: { readonly onProbe?: (request: EngineRequest) => void } = {}) {
  const clock = new ManualClock(0);
  const fleet = new Fleet();
  const live = { config: parseConfig(YAML('first'), 'router.yaml').config };
  const sent: string[] = [];
  const heard: Parameters<ParityMonitor['answered']>[0][] = [];
  const errors: unknown[] = [];
  for (const id of [1n, 2n]) {
    fleet.add({
      ...{ id, model: 'm', url: `http://e${id}`, dialect: 'vllm', role: 'aggregated' },
      ...{ ranks: { first: 0, count: 2 }, kvEvents: new Map(), taints: [], topology: {} },
      ...{ maxNumBatchedTokens: null, totalKvBlocks: null },
    });
  }
  const stop = sendParityProbes({
    ...{ clock, fleet, blockSizes: new BlockSizes(fleet, () => 4) },
    config: () => live.config,
    computed: () => undefined,
    monitor: { answered: (request) => heard.push(request) },
    log: { ...NO_LOG, error: (_, fields) => errors.push(fields?.error) },
    transportFor: () => ({
      dispatch(request, sink) {
        sent.push(`${request.servedAs} ${request.worker.spec.id}/${request.rank}`);
        over.onProbe?.(request);
        queueMicrotask(() => {
          sink.head(200, {}, []);
          sink.finished({
            ...{
              promptTokens: null,
              cachedTokens: 0,
              outputTokens: 1,
              finishReason: 'length',
              source: 'usage',
            },
          });
        });
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
  });
  const aRound = async (): Promise<void> => {
    clock.advanceTo(clock.now() + 60_000);
    for (let turn = 0; turn < 100; turn += 1) await Promise.resolve();
  };
  return { clock, errors, fleet, heard, live, round: aRound, sent, stop };
}

describe('probe prompts of a running router', () => {
  it('go to every rank twice, under the name that the configuration in force has for the model', async () => {
    const { heard, live, round, sent, stop } = probing();
    await round();
    const of = (name: string) =>
      ['1/0', '1/1', '2/0', '2/1'].flatMap((rank) => [`${name} ${rank}`, `${name} ${rank}`]);
    expect(sent).toEqual(of('first'));
    expect(heard.map(({ worker }) => worker)).toEqual([1n, 1n, 1n, 1n, 2n, 2n, 2n, 2n]);
    live.config = parseConfig(YAML('second'), 'router.yaml').config;
    await round();
    expect(sent.slice(8)).toEqual(of('second'));
    stop();
  });

  it('are not sent to a worker that leaves meanwhile', async () => {
    const { fleet, round, sent, stop } = probing({
      onProbe({ worker }) {
        if (worker.spec.id === 1n) fleet.remove(1n);
      },
    });
    await round();
    expect(sent).toEqual(['first 1/0', 'first 2/0', 'first 2/0', 'first 2/1', 'first 2/1']);
    stop();
  });

  it('go on with the next round after one that failed', async () => {
    let fails = true;
    const { errors, round, sent, stop } = probing({
      onProbe() {
        if (fails) throw new Error('no memory');
      },
    });
    await round();
    expect(errors).toEqual(['no memory']);
    fails = false;
    await round();
    expect(sent).toHaveLength(9);
    stop();
  });
});
