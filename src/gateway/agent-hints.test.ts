import { describe, expect, it } from 'vitest';
import { agentHintsRecord, NO_AGENT_HINTS, readAgentHints } from './agent-hints.ts';

const I32 = 2 ** 31;
const U32 = 2 ** 32;

function hints(body: unknown, headers: Record<string, string> = {}) {
  return readAgentHints({ headers, nvext: body === undefined ? {} : { agent_hints: body } });
}

describe('agent hints', () => {
  it('are none where nothing is said', () => {
    for (const nothing of [undefined, null, {}]) expect(hints(nothing)).toEqual(NO_AGENT_HINTS);
    expect(hints({ priority: null, osl: null, strict_priority: null, speculative_prefill: null })).toEqual(
      NO_AGENT_HINTS,
    );
  });

  it('are read from the body, at both ends of every range', () => {
    const most = { priority: I32 - 1, strict_priority: U32 - 1, osl: U32 - 1, speculative_prefill: true };
    expect(hints(most)).toEqual({
      priority: I32 - 1,
      strictPriority: U32 - 1,
      expectedOutputTokens: U32 - 1,
      speculativePrefill: true,
    });
    expect(hints({ priority: -I32, strict_priority: 0, osl: 1, speculative_prefill: false })).toEqual({
      priority: -I32,
      strictPriority: 0,
      expectedOutputTokens: 1,
      speculativePrefill: false,
    });
  });

  it('are read from headers, which win over the body', () => {
    const headers = {
      'x-dynamo-request-priority': '-7',
      'x-dynamo-request-strict-priority': '2',
      'x-pointsman-expected-output-tokens': '300',
      'x-pointsman-speculative-prefill': 'True',
    };
    const expected = {
      priority: -7,
      strictPriority: 2,
      expectedOutputTokens: 300,
      speculativePrefill: true,
    };
    expect(hints(undefined, headers)).toEqual(expected);
    expect(hints({ priority: 1, strict_priority: 1, osl: 1, speculative_prefill: false }, headers)).toEqual(
      expected,
    );
    expect(hints({ osl: 5 }, { 'x-dynamo-request-priority': '3' })).toMatchObject({
      priority: 3,
      expectedOutputTokens: 5,
    });
  });

  it.each<[unknown, string]>([
    ['high', 'nvext.agent_hints must be an object'],
    [{ priority: 'high' }, 'nvext.agent_hints.priority must be an integer from -2147483648 to 2147483647'],
    [{ priority: 1.5 }, 'nvext.agent_hints.priority must be'],
    [{ priority: I32 }, 'nvext.agent_hints.priority must be'],
    [{ priority: -I32 - 1 }, 'nvext.agent_hints.priority must be'],
    [{ strict_priority: -1 }, 'nvext.agent_hints.strict_priority must be an integer from 0 to 4294967295'],
    [{ strict_priority: U32 }, 'nvext.agent_hints.strict_priority must be'],
    [{ osl: 0 }, 'nvext.agent_hints.osl must be an integer from 1 to 4294967295'],
    [{ osl: U32 }, 'nvext.agent_hints.osl must be'],
    [{ osl: '5' }, 'nvext.agent_hints.osl must be'],
    [{ speculative_prefill: 1 }, 'nvext.agent_hints.speculative_prefill must be true or false'],
  ])('of a wrong kind or out of range are refused by name: %j', (body, message) => {
    expect(() => hints(body)).toThrow(message);
    try {
      hints(body);
    } catch (thrown) {
      expect(thrown).toMatchObject({ code: 'PM_REQUEST_INVALID', status: 400 });
    }
  });

  it('that are misspelt are refused, and what is near to none is somebody else’s', () => {
    expect(() => hints({ prioritty: 3 })).toThrow(
      'nvext.agent_hints.prioritty is no agent hint (did you mean "priority"?)',
    );
    expect(() => hints({ priority: 1, strictPriority: 2 })).toThrow('did you mean "strict_priority"?');
    expect(hints({ latency_sensitivity: 1.5, priority: 1 })).toMatchObject({ priority: 1 });
  });

  it('stand in the record as far as anything was said', () => {
    expect(agentHintsRecord(hints(undefined))).toBeNull();
    expect(agentHintsRecord(hints({ priority: -3, osl: 40, speculative_prefill: true }))).toEqual({
      priority: -3,
      strict_priority: 0,
      expected_output_tokens: 40,
      speculative_prefill: true,
    });
  });

  it.each<[string, string]>([
    ['x-dynamo-request-priority', '2147483648'],
    ['x-dynamo-request-priority', '1, 2'],
    ['x-dynamo-request-priority', ''],
    ['x-dynamo-request-priority', '1e3'],
    ['x-dynamo-request-strict-priority', '-1'],
    ['x-dynamo-request-strict-priority', '4294967296'],
    ['x-pointsman-expected-output-tokens', '0'],
    ['x-pointsman-expected-output-tokens', '99999999999999999999'],
    ['x-pointsman-speculative-prefill', 'yes'],
  ])('in header %s may not be "%s"', (name, value) => {
    expect(() => hints({}, { [name]: value })).toThrow(`${name} must be`);
  });
});
