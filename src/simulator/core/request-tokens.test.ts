import fc from 'fast-check';
import { expect, it } from 'vitest';
import { RequestTokens } from './request-tokens.ts';

it('shows any part of prompt and output as one row, without copying the prompt', () => {
  const tokens = fc.uint8Array({ maxLength: 12 }).map((bytes) => Uint32Array.from(bytes));
  fc.assert(
    fc.property(tokens, tokens, fc.nat(30), fc.nat(30), (prompt, output, one, other) => {
      const row = new RequestTokens(prompt);
      row.reserve(output.length);
      for (const token of output) {
        row.append(token);
        expect(row.last).toBe(token);
      }
      const all = [...prompt, ...output];
      expect(row.length).toBe(all.length);
      const [from, to] = [one % (all.length + 1), other % (all.length + 1)].sort((a, b) => a - b) as [
        number,
        number,
      ];
      const view = row.view(from, to);
      expect([...view]).toEqual(all.slice(from, to));
      if (to <= prompt.length) expect(view.buffer).toBe(prompt.buffer);
    }),
  );
});
