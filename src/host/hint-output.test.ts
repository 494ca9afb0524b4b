// What one hint policy returns is taken whole or dropped whole; reading it never throws.
import { describe, expect, it } from 'vitest';
import type { HintAction } from '../plugin/index.ts';
import { judgeOutput, type NamedActions, type OutputLimits, refusalText } from './hint-output.ts';

const LIMITS: OutputLimits = { room: 2, roomBytes: 1000, declared: null, accepted: null };
const action = (n: number): HintAction => ({ type: 'acme.mark', version: '1.0', payload: { n } });
const actions = (count: number): HintAction[] => Array.from({ length: count }, (_, n) => action(n));

describe('an output', () => {
  it('is taken as a copy without anything the contract does not name', () => {
    const extra = { ...action(1), action_id: 'mine', note: 'x' };
    expect(judgeOutput([extra], LIMITS)).toEqual([{ ...action(1), bytes: 31 }]);
    expect(judgeOutput([], LIMITS)).toEqual([]);
  });

  it('fits the room or is dropped before anything in it is read', () => {
    expect(judgeOutput(actions(2), LIMITS)).toHaveLength(2);
    expect(judgeOutput([null, null, null], LIMITS)).toBe('no_room');
  });

  it('fits the bytes that are left, all its payloads together', () => {
    const text = (length: number): HintAction => ({ ...action(0), payload: { t: 'x'.repeat(length) } });
    const overhead = 8;
    const fits = [text(500 - overhead), text(500 - overhead)];
    expect(judgeOutput(fits, LIMITS)).toMatchObject([{ bytes: 500 }, { bytes: 500 }]);
    expect(judgeOutput([text(500 - overhead), text(501 - overhead)], LIMITS)).toBe('no_room');
  });

  it.each<[string, () => unknown, string]>([
    ['is a promise', async () => actions(1), 'promise'],
    ['is a promise that rejects', () => Promise.reject(new Error('late')), 'promise'],
    ['is a thenable', () => Object.fromEntries([['then', () => undefined]]), 'promise'],
    ['is nothing', () => undefined, 'malformed'],
    ['is an object', () => ({ length: 0 }), 'malformed'],
    ['is a list of strings', () => ['kv.fetch'], 'malformed'],
    ['has a numeric version', () => [{ ...action(0), version: 1 }], 'malformed'],
    ['has an empty type', () => [{ ...action(0), type: '' }], 'malformed'],
    ['has no payload', () => [{ type: 'a', version: '1' }], 'malformed'],
    ['has a function in a payload', () => [{ ...action(0), payload: { f() {} } }], 'malformed'],
    ['has one bad action among good ones', () => [action(0), null], 'malformed'],
    [
      'has a getter that throws',
      () => [
        Object.defineProperty({}, 'type', {
          get() {
            throw new Error('no');
          },
        }),
      ],
      'malformed',
    ],
    [
      'is a revoked proxy',
      () => {
        const { proxy, revoke } = Proxy.revocable([], {});
        revoke();
        return proxy;
      },
      'malformed',
    ],
  ])('drops one that %s', (_, build, reason) => {
    expect(judgeOutput(build(), LIMITS)).toBe(reason);
  });
});

describe('what is wrong with an output', () => {
  const throwing = Object.defineProperty({}, 'type', {
    get() {
      throw new Error(`no ${'x'.repeat(1000)}`);
    },
  });
  const expected = '; expected a list of { type, version, payload }';
  const noName = ', not a text of 1 to 128 characters without blanks and @';

  it.each<[string, unknown]>([
    [`buildHints returned an object${expected}`, action(0)],
    [`buildHints returned undefined${expected}`, undefined],
    [`action 2: it is a string${expected}`, [action(0), 'kv.fetch']],
    [`action 1: its type is undefined${noName}${expected}`, [{ name: 'a' }]],
    [`action 1: its version is 1${noName}${expected}`, [{ ...action(0), version: 1 }]],
    [`action 1: the payload is not an object${expected}`, [{ type: 'a', version: '1' }]],
    [`action 1: NaN is not a JSON number${expected}`, [action(Number.NaN)]],
    [`action 1: reading it threw: no ${'x'.repeat(179)}${expected}`, [throwing]],
    ['buildHints returned a promise; it returns its actions at once', Promise.resolve([])],
    ['3 actions; the envelope takes 2 more', actions(3)],
    [
      'payloads of more than 1000 bytes, which is all the envelope takes',
      [{ ...action(0), payload: { text: 'x'.repeat(1000) } }],
    ],
  ])('is said in words: %s', (text, output) => {
    const named: NamedActions = { names: [], fault: '' };
    const verdict = judgeOutput(output, LIMITS, named);
    if (typeof verdict !== 'string') throw new Error('it was taken');
    expect(refusalText(verdict, named, LIMITS)).toBe(text);
  });
});
