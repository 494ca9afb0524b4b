import { describe, expect, it } from 'vitest';
import { readConstraints } from './routing-constraints.ts';

const HINTS = { expectedOutputTokens: null, priority: 0, strictPriority: 0 };
const read = (headers: Record<string, string>, nvext: Record<string, unknown> = {}) =>
  readConstraints({ headers, body: {}, nvext }, HINTS).pinnedPrefill;

describe('the pin of the worker that computes the prompt', () => {
  it('is read beside that of the worker that decodes, each with its own rank', () => {
    const headers = {
      'x-dynamo-worker-instance-id': '2',
      'x-dynamo-dp-rank': '1',
      'x-dynamo-prefill-instance-id': '18446744073709551615',
      'x-dynamo-prefill-dp-rank': '3',
    };
    expect(readConstraints({ headers, body: {}, nvext: {} }, HINTS)).toMatchObject({
      pinnedWorker: { workerId: 2n, rank: 1 },
      pinnedPrefill: { workerId: 18446744073709551615n, rank: 3 },
    });
  });

  it('is taken from the older headers and from nvext as well, without a rank too', () => {
    expect(read({ 'x-prefill-instance-id': '7', 'x-prefill-dp-rank': '0' })).toEqual({
      workerId: 7n,
      rank: 0,
    });
    expect(read({}, { prefill_worker_id: 7n, prefill_dp_rank: 2 })).toEqual({ workerId: 7n, rank: 2 });
    expect(read({}, { prefill_worker_id: 7 })).toEqual({ workerId: 7n, rank: null });
    expect(read({}, { prefill_dp_rank: 2 })).toBeNull();
  });

  it('is an error when it cannot be read', () => {
    expect(() => read({ 'x-dynamo-prefill-instance-id': 'first' })).toThrow(/x-dynamo-prefill-instance-id/);
    expect(() => read({}, { prefill_worker_id: 1, prefill_dp_rank: -1 })).toThrow(/nvext.prefill_dp_rank/);
  });
});
