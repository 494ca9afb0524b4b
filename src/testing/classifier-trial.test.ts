import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type ClassifyAnswer, defineRequestClassifier, RateLimited } from '../plugin/index.ts';
import { testClassifier } from './index.ts';

/** Long prompts wait, longer ones are refused. */
const patient = defineRequestClassifier({
  type: 'patient',
  parameters: z.strictObject({ wait_ms: z.int().min(0).default(1000) }),
  create: ({ clock, parameters, blockSize, workers }) => ({
    classify({ inputTokens, session }): ClassifyAnswer {
      if (inputTokens > 10_000) throw new RateLimited(2.5, 'too long');
      if (session?.sessionId === 'broken') throw new Error('broken');
      if (inputTokens < 1000) return { schedulingCostTokens: blockSize ?? 1 };
      const [first] = workers();
      return new Promise((resolve) =>
        clock.schedule(parameters.wait_ms, () =>
          resolve(first && { workerTarget: { workerId: first.workerId } }),
        ),
      );
    },
  }),
});

describe('testClassifier', () => {
  it('answers at once, later, with a refusal or with a failure', async () => {
    const workers = [{ workerId: 7n, ranks: [0, 1], totalKvBlocks: 100 }];
    const trial = await testClassifier(patient, { parameters: { wait_ms: 50 }, workers });
    const short = trial.send({ inputTokens: 10 });
    const long = trial.send();
    const tooLong = trial.send({ inputTokens: 20_000 });
    const broken = trial.send({ session: { sessionId: 'broken' } });
    expect([short, long, tooLong, broken].map(({ state }) => state)).toEqual([
      'classified',
      'waiting',
      'refused',
      'failed',
    ]);
    expect([short.overrides, short.waitedMs]).toEqual([{ schedulingCostTokens: 16 }, 0]);
    expect(tooLong.refusal).toMatchObject({ message: 'too long', details: { retry_after: '3' } });
    expect([tooLong.error, broken.error]).toEqual([null, 'broken']);
    await trial.advance(49);
    expect(long.state).toBe('waiting');
    await trial.advance(1);
    expect([long.state, long.waitedMs]).toEqual(['classified', 50]);
    expect(long.overrides).toEqual({ workerTarget: { workerId: 7n, rank: null } });
    long.sent();
    long.responding();
    long.complete(5);
    expect(trial.events.map(({ kind, requestId }) => `${kind} ${requestId}`)).toEqual([
      'aborted r3',
      'aborted r4',
      'sent r2',
      'responding r2',
      'completed r2',
    ]);
    await trial.close();
  });

  it('lets clients leave, and refuses who still waits at the end', async () => {
    const trial = await testClassifier(patient);
    const left = trial.send();
    left.abort();
    const waits = trial.send();
    await trial.close();
    expect([left.state, waits.state, waits.refusal?.code]).toEqual(['left', 'failed', 'PM_SHUTTING_DOWN']);
  });

  it('checks answers as the router does', async () => {
    const misspelt = defineRequestClassifier({
      type: 'misspelt',
      create: () => ({ classify: () => ({ policyClass: 'vip' }) }),
    });
    const strict = await testClassifier(misspelt, { policyClasses: ['chat', 'batch'] });
    expect(strict.send().error).toBe(
      'policyClass names "vip", which is no policy family and no class without one; known: chat, batch',
    );
    const known = await testClassifier(misspelt, { policyClasses: ['vip'] });
    expect(known.send().overrides).toEqual({ policyClass: 'vip' });
  });

  it('refuses parameters as a start would', async () => {
    await expect(testClassifier(patient, { parameters: { wait: 2 } })).rejects.toThrow(
      'patient: parameters.wait: unknown key "wait"',
    );
  });
});
