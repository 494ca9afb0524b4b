import { describe, expect, it } from 'vitest';
import { defineHintPolicy, type HintAction } from '../plugin/index.ts';
import { checkHintPolicy } from './index.ts';

const timeless = ['valid', 'repeatable'] as const;
const action = (payload: HintAction['payload']): HintAction => ({
  type: 'acme.mark',
  version: '1.0',
  payload,
});

describe('checkHintPolicy', () => {
  it('tells of a policy that counts on a session', async () => {
    const definition = defineHintPolicy({
      type: 'needs-session',
      create: () => ({ buildHints: ({ session }) => [action({ session: session!.sessionId })] }),
    });
    const [fault, ...others] = await checkHintPolicy(definition, { properties: timeless });
    expect(others).toEqual([]);
    expect(fault?.property).toBe('valid');
    expect(fault?.message).toContain('the output was dropped (threw: Cannot read properties of null');
    const context = { session: { sessionId: 's', agentHeaders: {} } };
    expect(await checkHintPolicy(definition, { context, properties: timeless })).toEqual([]);
  });

  it('tells of a policy that sends what it did not declare', async () => {
    const definition = defineHintPolicy({
      type: 'undeclared',
      actions: ['acme.other@1.0'],
      create: () => ({ buildHints: () => [action({})] }),
    });
    const [fault] = await checkHintPolicy(definition, { properties: timeless });
    expect(fault?.message).toContain(
      'the output was dropped (undeclared_action: action acme.mark@1.0; the policy declares acme.other@1.0) for {"requestId":"r0"',
    );
  });

  it('tells of a policy that does not repeat itself', async () => {
    const definition = defineHintPolicy({
      type: 'dice',
      create: () => ({ buildHints: () => [action({ roll: Math.random() })] }),
    });
    expect((await checkHintPolicy(definition, { properties: timeless })).map((one) => one.property)).toEqual([
      'repeatable',
    ]);
  });

  it('tells of a policy that takes longer than a hint may', async () => {
    const definition = defineHintPolicy({
      type: 'slow',
      create: () => ({
        buildHints() {
          const until = performance.now() + 2;
          while (performance.now() < until);
          return [];
        },
      }),
    });
    const [fault] = await checkHintPolicy(definition, { properties: ['within-budget'], trials: 1 });
    expect(fault?.message).toMatch(/^a call takes \d+\.\d\d ms, the budget is 1 ms$/);
  });
});
