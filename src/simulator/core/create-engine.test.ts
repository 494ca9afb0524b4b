import { describe, expect, it } from 'vitest';
import { createBlockHasher } from '../../kv/index.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';

const hasher = createBlockHasher();

describe('createSimulatedEngine', () => {
  it.each([
    [{ model: '' }, "the simulated engine's model name has 0 characters; it must have 1 to 1024"],
    [{ blockSize: 0 }, "the simulated engine's blockSize is 0; it must be a whole number from 1 to 1048576"],
    [
      { kvBlocks: 1.5 },
      "the simulated engine's kvBlocks is 1.5; it must be a whole number from 1 to 67108864",
    ],
    [{ speedup: 0 }, "the simulated engine's speedup is 0; it must be a number above 0"],
    [{ nicGbps: Number.NaN }, "the simulated engine's nicGbps is NaN; it must be a number above 0"],
    [
      { acceptedActions: ['acme.pin@1.0', 'pin'] },
      'the simulated engine cannot accept the action "pin"; it must look like acme.pin@1.0',
    ],
    [
      { acceptedActions: new Array(33).fill('acme.pin@1.0') },
      'the simulated engine has 33 accepted actions, at most 32 are possible',
    ],
    [{ fetchLatencyMs: -1 }, "the simulated engine's fetchLatencyMs is -1; it must be a number from 0"],
  ])('refuses %o', (settings, message) => {
    expect(() => createSimulatedEngine({ ...DEFAULT_ENGINE_SETTINGS, ...settings }, { hasher })).toThrow(
      message,
    );
  });

  it('refuses a request it cannot take, and takes the next', () => {
    const engine = createSimulatedEngine(DEFAULT_ENGINE_SETTINGS, { hasher });
    const request = { id: 'a', tokens: new Uint32Array(3), outputTokens: 1, sessionId: null, hint: null };
    engine.submit(request, 0);
    expect(() => engine.submit(request, 0)).toThrow(
      'the simulated engine cannot take request a: its id, or the key of its handoff, is in use',
    );
    expect(() => engine.submit({ ...request, id: 'b', tokens: new Uint32Array(0) }, 0)).toThrow(
      'the simulated engine cannot take request b: its prompt is empty',
    );
    expect(() => engine.submit({ ...request, id: 'b', outputTokens: -1 }, 0)).toThrow(
      'the simulated engine cannot take request b: its output length is -1, not a whole number from 0',
    );
    engine.submit({ ...request, id: 'b' }, 0);
    expect(engine.stats().waiting).toBe(2);
  });
});
