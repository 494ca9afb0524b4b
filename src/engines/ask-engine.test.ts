import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { askCapabilities, probeHealth } from './ask-engine.ts';
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

const RANK = { router_hint: true };
const ANSWER = {
  protocol_versions: ['0.1'],
  epoch: 'e1',
  model: 'm',
  worker_type: 'aggregated',
  block_size: 16,
  hash_scheme: 'x',
  ranks: { '0': RANK },
};

describe('askCapabilities', () => {
  it('reads an advertisement, and takes 404 and 501 as having none', async () => {
    let status = 200;
    const url = await engine((req, res) => {
      expect(req.url).toBe('/kv_hints/capabilities');
      res.writeHead(status).end(JSON.stringify(ANSWER));
    });
    expect((await askCapabilities(url))?.capabilities.epoch).toBe('e1');
    status = 404;
    expect(await askCapabilities(`${url}/`)).toBeNull();
    status = 501;
    expect(await askCapabilities(url)).toBeNull();
    status = 500;
    await expect(askCapabilities(url)).rejects.toThrow(
      'KV hint capabilities: the engine answered with status 500',
    );
  });

  it('refuses an answer that is no JSON or too long', async () => {
    let body = 'no';
    const url = await engine((_req, res) => res.end(body));
    await expect(askCapabilities(url)).rejects.toThrow('KV hint capabilities: the answer is not JSON');
    body = ' '.repeat(1024 * 1024 + 1);
    await expect(askCapabilities(url)).rejects.toThrow(
      'the engine did not answer GET /kv_hints/capabilities: the answer is longer than 1048576 bytes',
    );
  });

  it('gives up on an engine that does not answer in time', async () => {
    const url = await engine(() => {});
    await expect(askCapabilities(url, { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'PM_ENGINE_UNREACHABLE',
    });
  });
});

describe('probeHealth', () => {
  it('is true only for a 2xx in time', async () => {
    let status = 200;
    const url = await engine((req, res) => {
      expect(req.url).toBe('/health');
      res.writeHead(status).end();
    });
    expect(await probeHealth(url)).toBe(true);
    status = 503;
    expect(await probeHealth(url)).toBe(false);
    const silent = await engine(() => {});
    expect(await probeHealth(silent, { timeoutMs: 20 })).toBe(false);
    expect(await probeHealth('http://127.0.0.1:1')).toBe(false);
  });
});

describe('requireDialect', () => {
  it('tells a dialect that is not available yet from one that does not exist', () => {
    expect(requireDialect('sim').name).toBe('sim');
    expect(() => requireDialect('vllm')).toThrow('dialect "vllm" is not available yet; available: sim');
    expect(() => requireDialect('vlm')).toThrow('there is no dialect "vlm"; available: sim');
  });
});
