// What a worker-selection policy is told of the request it decides on.
import { expect, it } from 'vitest';
import { defineWorkerSelectionPolicy, pickWorker, type SelectionRequest } from '../plugin/index.ts';
import { prompt, testRoad } from './road.fixtures.ts';

it('a worker-selection policy is told all that is known of the request, and can change none of it', async () => {
  const seen: SelectionRequest[] = [];
  const definition = defineWorkerSelectionPolicy({
    type: 'curious',
    create: () => ({
      picker: pickWorker({
        pick(_table, request) {
          seen.push(request);
          return 0;
        },
      }),
    }),
  });
  const { arrive } = await testRoad({ selection: { definition } });
  const session = { sessionId: 's', agentHeaders: { 'x-codex-turn': ['1'] } };
  arrive({
    tokens: prompt(1, 100),
    session,
    expectedOutputTokens: 7,
    constraints: {
      pinnedWorker: null,
      allowedWorkers: null,
      requiredTaints: [],
      preferredTaints: new Map(),
      temperature: 0.25,
      priority: 3,
      strictPriority: 2,
    },
  });
  expect(seen).toEqual([
    {
      promptTokens: 100,
      requestBlocks: 7,
      blockSize: 16,
      tracksPrefillTokens: true,
      session,
      affinityTarget: null,
      pinnedWorker: null,
      expectedOutputTokens: 7,
      priority: 3,
      strictPriority: 2,
      temperatureOverride: 0.25,
    },
  ]);
  expect(Object.isFrozen(seen[0])).toBe(true);
  expect(Object.isFrozen(seen[0]?.session)).toBe(true);
});
