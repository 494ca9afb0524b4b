import { afterEach, expect, it } from 'vitest';
import { listen } from '../wire/listening.ts';
import { readDoubleFault } from './double-faults.ts';
import {
  answerJson,
  createDoubleServer,
  type DoubleFailure,
  DoubleRefusal,
  type DoubleServer,
  jsonBody,
} from './double-server.ts';

const open: DoubleServer[] = [];
afterEach(() => {
  for (const { server } of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function start(): Promise<{ url: string; double: DoubleServer; failures: DoubleFailure[] }> {
  const failures: DoubleFailure[] = [];
  const double = createDoubleServer({
    routes: {
      'GET /health': (_, response) => answerJson(response, 200, {}),
      'POST /echo': (request, response) => {
        const body = jsonBody(request);
        if (body === undefined) throw new DoubleRefusal(422, { detail: 'no JSON' }, { 'x-why': 'syntax' });
        answerJson(response, 200, { query: request.query.get('a'), header: request.headers['x-one'] });
      },
      'POST /broken': () => {
        throw new TypeError('a fault of the double');
      },
    },
    admit: ({ headers }) => {
      if (headers.authorization === 'wrong') throw new DoubleRefusal(401, { error: 'Unauthorized' });
    },
    refusalOf: (failure) => {
      failures.push(failure);
      return new DoubleRefusal(
        { no_route: 404, wrong_method: 405, too_large: 413, not_json: 400, thrown: 500 }[failure.kind],
        { failure: failure.kind },
      );
    },
    maxBodyBytes: 100,
  });
  await listen(double.server, 0);
  open.push(double);
  const address = double.server.address();
  return {
    double,
    failures,
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
  };
}

const post = (url: string, body: string, headers: Record<string, string> = {}) =>
  fetch(url, { method: 'POST', body, headers });

it('answers by method and path, and remembers every request byte by byte', async () => {
  const { double, url } = await start();
  const answer = await post(`${url}/echo?a=b`, '{"x": 18446744073709551615}', { 'x-one': '1' });
  expect(await answer.json()).toEqual({ query: 'b', header: '1' });
  const [request] = double.requests();
  expect(request?.path).toBe('/echo');
  expect(request?.body.toString()).toBe('{"x": 18446744073709551615}');
  expect(jsonBody(request!)).toEqual({ x: 18446744073709551615n });
});

it('tells failures in the words of the server it plays', async () => {
  const { failures, url } = await start();
  expect((await fetch(`${url}/health`)).status).toBe(200);
  expect((await fetch(`${url}/nowhere`)).status).toBe(404);
  expect((await fetch(`${url}/constructor`)).status).toBe(404);
  expect((await fetch(`${url}/echo`)).status).toBe(405);
  expect((await post(`${url}/echo`, 'x'.repeat(101))).status).toBe(413);
  expect((await post(`${url}/broken`, '{}')).status).toBe(500);
  const refused = await post(`${url}/echo`, '{');
  expect([refused.status, refused.headers.get('x-why'), await refused.json()]).toEqual([
    422,
    'syntax',
    { detail: 'no JSON' },
  ]);
  expect((await post(`${url}/echo`, `${'['.repeat(50)}${']'.repeat(50)}`)).status).toBe(200);
  expect((await post(`${url}/echo`, '{}', { authorization: 'wrong' })).status).toBe(401);
  expect(failures.map(({ kind }) => kind)).toEqual([
    'no_route',
    'no_route',
    'wrong_method',
    'too_large',
    'thrown',
  ]);
});

it('reads faults as an option spells them', () => {
  expect(readDoubleFault('events-off')).toEqual({ eventsOff: true });
  expect(readDoubleFault('announced-block-size=32')).toEqual({ announcedBlockSize: 32 });
  for (const wrong of ['events-off=1', 'announced-block-size', 'announced-block-size=0', 'toString', '']) {
    expect(readDoubleFault(wrong)).toBeNull();
  }
});
