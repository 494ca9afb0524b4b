import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import { parseCapabilities } from '../fleet/index.ts';
import { type Clock, NO_LOG } from '../plugin/index.ts';
import { askCapabilities, createHttpProbe, probeHealth } from './ask-engine.ts';
import { requireDialect } from './dialects.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function engine(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** No time passes. */
const STANDING: Clock = { now: () => 0, schedule: () => () => undefined };
const RANK = { router_hint: true };
const ANSWER = {
  protocol_versions: ['0.1'],
  epoch: 'e1',
  model: 'm',
  worker_type: 'aggregated',
  block_size: 16,
  hash_scheme: 'x',
  reports_outcomes: true,
  ranks: { '0': RANK },
};
const forever = (): AbortSignal => new AbortController().signal;

describe('askCapabilities', () => {
  it('reads an advertisement, and takes 404 and 501 as having none', async () => {
    let status = 200;
    const url = await engine((req, res) => {
      expect(req.url).toBe('/kv_hints/capabilities');
      res.writeHead(status).end(JSON.stringify(ANSWER));
    });
    expect((await askCapabilities(url, forever()))?.epoch).toBe('e1');
    status = 404;
    expect(await askCapabilities(`${url}/`, forever())).toBeNull();
    status = 501;
    expect(await askCapabilities(url, forever())).toBeNull();
    status = 500;
    await expect(askCapabilities(url, forever())).rejects.toThrow(
      'the capability advertisement cannot be used: the engine answered with status 500',
    );
  });

  it('refuses an answer that is no JSON or too long', async () => {
    let body = 'no';
    const url = await engine((_req, res) => res.end(body));
    await expect(askCapabilities(url, forever())).rejects.toThrow(
      'the capability advertisement cannot be used: it is not JSON',
    );
    body = ' '.repeat(1024 * 1024 + 1);
    await expect(askCapabilities(url, forever())).rejects.toThrow(
      'the engine did not answer GET /kv_hints/capabilities: the answer is longer than 1048576 bytes',
    );
  });

  it('ends when it is told to', async () => {
    const controller = new AbortController();
    const url = await engine(() => controller.abort());
    await expect(askCapabilities(url, controller.signal)).rejects.toMatchObject({
      code: 'PM_ENGINE_UNREACHABLE',
    });
  });
});

describe('probeHealth', () => {
  it('is true only for a 2xx', async () => {
    let status = 200;
    const url = await engine((req, res) => {
      expect(req.url).toBe('/health');
      res.writeHead(status).end();
    });
    expect(await probeHealth(url, forever())).toBe(true);
    status = 503;
    expect(await probeHealth(url, forever())).toBe(false);
    expect(await probeHealth('http://127.0.0.1:1', forever())).toBe(false);
  });
});

describe('createHttpProbe', () => {
  it('asks for capabilities only when due and wanted, and takes an unusable answer as none', async () => {
    const asked: string[] = [];
    let answer = JSON.stringify(ANSWER);
    const url = await engine((req, res) => {
      asked.push(req.url ?? '');
      res.end(answer);
    });
    const warned: string[] = [];
    const probe = createHttpProbe({
      asks: (id) => id === 1n,
      clock: STANDING,
      log: { ...NO_LOG, warn: (message) => warned.push(message) },
    });
    const run = (id: bigint, due: boolean) =>
      probe(workerFixture({ id, url }), { askCapabilities: due, signal: forever() });
    expect(await run(1n, false)).toEqual({ healthy: true });
    expect(await run(2n, true)).toEqual({ healthy: true });
    expect(asked).toEqual(['/health', '/health']);
    expect(await run(1n, true)).toMatchObject({ healthy: true, capabilities: { epoch: 'e1' } });
    answer = '{}';
    expect(await run(1n, true)).toEqual({ healthy: true, capabilities: null });
    expect(warned).toEqual([expect.stringContaining('the capability advertisement cannot be used')]);
  });
});

describe('a worker of dialect auto', () => {
  it('is healthy once its engine says what it is, and not while it does not', async () => {
    let scheme = 'sim-xxh3/seed=7';
    let status = 200;
    const url = await engine((req, res) => {
      const answer = JSON.stringify({ ...ANSWER, hash_scheme: scheme });
      res.writeHead(req.url === '/health' ? 200 : status).end(answer);
    });
    const warned: string[] = [];
    const probe = createHttpProbe({
      asks: () => true,
      clock: STANDING,
      log: { ...NO_LOG, warn: (message) => warned.push(message) },
    });
    const run = () =>
      probe(workerFixture({ url, dialect: 'auto' }), { askCapabilities: true, signal: forever() });
    expect(await run()).toMatchObject({ healthy: true, capabilities: { hashScheme: scheme } });
    scheme = 'sha256_cbor';
    expect(await run()).toEqual({ healthy: false });
    status = 404;
    expect(await run()).toEqual({ healthy: false });
    expect(warned).toEqual([
      'worker 1 has dialect "auto", but the hash scheme "sha256_cbor" belongs to no dialect that is available, and its engine does not say what it is; name its dialect: sim, vllm',
      'worker 1 has dialect "auto", but its engine does not say what it is; name its dialect: sim, vllm',
    ]);
  });
});

describe('an engine that is asked what it is', () => {
  const probeOf = (clock: Clock, warned: string[] = []) =>
    createHttpProbe({
      asks: () => false,
      clock,
      log: { ...NO_LOG, warn: (message) => warned.push(message) },
    });
  const due = () => ({ askCapabilities: true, signal: forever() });

  it('is healthy all the same when it does not say so in time, fails to, or is another one', async () => {
    let version: 'silent' | 'broken' | 'other' = 'silent';
    const url = await engine((req, res) => {
      if (req.url === '/health') res.end();
      else if (version === 'broken') res.destroy();
      else if (version === 'other') res.writeHead(404).end();
    });
    const worker = workerFixture({ url, dialect: 'vllm' });
    // The limit is over as soon as the question is on its way.
    const hasty: Clock = {
      now: () => 0,
      schedule(_, callback) {
        setImmediate(callback);
        return () => undefined;
      },
    };
    expect(await probeOf(hasty)(worker, due())).toEqual({ healthy: true });
    version = 'broken';
    expect(await probeOf(STANDING)(worker, due())).toEqual({ healthy: true });
    version = 'other';
    const warned: string[] = [];
    expect(await probeOf(STANDING, warned)(worker, due())).toEqual({ healthy: true, engine: null });
    expect(warned).toEqual([
      'worker 1 has dialect "vllm", but its engine does not answer as one: check its url, or name another dialect',
    ]);
  });

  it('is not asked when nothing is due', async () => {
    const asked: (string | undefined)[] = [];
    const url = await engine((req, res) => {
      asked.push(req.url);
      res.end('{"version":"1"}');
    });
    const worker = workerFixture({ url, dialect: 'vllm' });
    await probeOf(STANDING)(worker, { askCapabilities: false, signal: forever() });
    expect(asked).toEqual(['/health']);
  });
});

describe('requireDialect', () => {
  it('lets auto stand unless the file itself says that the engine will not be recognized', () => {
    const advertised = parseCapabilities(ANSWER);
    requireDialect('auto');
    requireDialect('auto', 'ask');
    requireDialect('auto', { ...advertised, hashScheme: 'sim-xxh3/seed=0' });
    requireDialect('sim', 'none');
    expect(() => requireDialect('auto', 'none')).toThrow(
      'dialect "auto" asks the engine what it is, and capabilities: none says not to ask; name the dialect: sim, vllm',
    );
    // Its engine may still say what it is.
    requireDialect('auto', advertised);
  });

  it('tells a dialect that is not available yet from one that does not exist', () => {
    requireDialect('sim');
    expect(() => requireDialect('trtllm')).toThrow(
      'dialect "trtllm" is not available yet; available: sim, vllm',
    );
    expect(() => requireDialect('vlm')).toThrow('there is no dialect "vlm"; available: sim, vllm');
  });
});
