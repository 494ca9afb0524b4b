import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { routerConfigFixture } from '../../tests/gateway-fixtures.ts';
import { apiKeyCheck } from './api-keys.ts';
import { callerRules, NO_ADAPTERS, namedModel } from './callers.ts';
import { networkCheck } from './networks.ts';
import { readSession } from './session-headers.ts';

describe('networkCheck', () => {
  it.each<[string, string, boolean]>([
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['127.0.0.1', '127.0.0.1', true],
    ['127.0.0.1', '127.0.0.2', false],
    ['127.0.0.0/8', '::ffff:127.0.0.1', true],
    ['::ffff:127.0.0.0/104', '127.9.9.9', true],
    ['::ffff:127.0.0.0/104', '128.0.0.1', false],
    ['::1', '::1', true],
    ['fd00::/8', 'fd12::1', true],
    ['fd00::/8', '127.0.0.1', false],
    ['fe80::/10', 'fe80::1%eth0', true],
    ['0.0.0.0/0', '8.8.8.8', true],
    ['0.0.0.0/0', '::1', false],
  ])('%s holds %s: %s', (network, address, expected) => {
    expect(networkCheck([network])(address)).toBe(expected);
  });

  it('trusts nobody without networks and nobody without an address', () => {
    expect(networkCheck([])('127.0.0.1')).toBe(false);
    expect(networkCheck(['0.0.0.0/0'])(undefined)).toBe(false);
    expect(networkCheck(['0.0.0.0/0'])('somewhere')).toBe(false);
  });

  it.each(['10.0.0.0/33', 'localhost', '10.0.0.0/8/8', '::1/129', '10.0.0.0/', ''])(
    'refuses %j',
    (network) => {
      expect(() => networkCheck([network])).toThrow(
        `"${network}" is no network; write an address with an optional prefix length, for example 10.0.0.0/8 or ::1`,
      );
    },
  );
});

describe('namedModel', () => {
  it('lets a key that names a model by alias use the model, by either name, and no other', () => {
    const sha256 = createHash('sha256').update('key').digest('hex');
    const auth = { apiKeys: [{ name: 'a', sha256, models: ['default'], tenant: null }] };
    const config = routerConfigFixture({ auth });
    const [tiny] = config.models.values();
    const models = new Map([...config.models, ['other', { ...tiny!, name: 'other', aliases: [] }]]);
    const rules = callerRules(() => ({ ...config, models }))();
    const client = rules.authenticate('Bearer key');
    expect(namedModel(rules, NO_ADAPTERS, client, 'default').model.name).toBe('tiny');
    expect(namedModel(rules, NO_ADAPTERS, client, 'tiny').model.name).toBe('tiny');
    expect(() => namedModel(rules, NO_ADAPTERS, client, 'other')).toThrow('there is no model "other"');
    expect(namedModel(rules, NO_ADAPTERS, null, 'other').model.name).toBe('other');
  });
});

describe('apiKeyCheck', () => {
  const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex');
  const check = apiKeyCheck({
    apiKeys: [
      { name: 'a', sha256: sha256('key-a'), models: ['tiny'], tenant: 't' },
      { name: 'b', sha256: sha256('key-b').toUpperCase(), models: null, tenant: null },
    ],
  });

  it('finds the client of a key', () => {
    expect(check('Bearer key-a')).toEqual({ name: 'a', models: new Set(['tiny']), tenant: 't' });
    expect(check('bearer key-b')).toEqual({ name: 'b', models: null, tenant: null });
  });

  it('refuses a missing and an unknown key without repeating it', () => {
    expect(() => check(undefined)).toThrow('no API key; send it as "Authorization: Bearer KEY"');
    expect(() => check('Basic key-a')).toThrow('no API key');
    expect(() => check('Bearer key-c')).toThrow(/^the API key is not known$/);
    expect(() => check(`Bearer ${sha256('key-a')}`)).toThrow('the API key is not known');
  });

  it('lets everyone in where no keys are configured', () => {
    expect(apiKeyCheck(null)(undefined)).toBeNull();
  });
});

describe('readSession', () => {
  it('reads the canonical headers, trimmed, and freezes the result', () => {
    const session = readSession(
      {
        'x-dynamo-session-id': [' s-1 '],
        'x-dynamo-parent-session-id': ['s-0'],
        'x-dynamo-session-final': ['TRUE'],
        'x-other': ['other'],
      },
      'tool',
    );
    expect(session).toEqual({
      sessionId: 's-1',
      parentSessionId: 's-0',
      sessionFinal: true,
      inputTrigger: 'tool_result',
      agentHeaders: {},
    });
    expect(Object.isFrozen(session)).toBe(true);
    expect(Object.isFrozen(session?.agentHeaders)).toBe(true);
  });

  it('drops a parent that is the session itself and a final that is no boolean', () => {
    const headers = {
      'x-dynamo-session-id': ['s'],
      'x-dynamo-parent-session-id': ['s'],
      'x-dynamo-session-final': ['yes'],
    };
    expect(readSession(headers, null)).toEqual({ sessionId: 's', agentHeaders: {} });
  });

  it.each(['', '   ', 'x'.repeat(257), 'caf\u00e9', 'a\u0007b'])('takes %j as no session id', (id) => {
    expect(
      readSession({ 'x-dynamo-session-id': [id], 'x-dynamo-session-final': ['true'] }, 'user'),
    ).toBeNull();
  });
});
