// How long the computation of a prompt takes, foreseen at its booking.

/** Foresees durations. */
export interface PrefillModel {
  /**
   * @param model whose prompt it is.
   * @param tokens prompt tokens to compute, ≥ 1.
   * @returns ms from the moment that the worker has nothing older to compute, ≥ 0; null = not known.
   */
  durationMs(model: string, tokens: number): number | null;
}

/** Prompts are computed at a steady pace. `tokensPerSecond` > 0 by model; null = not known. */
export function throughputModel(tokensPerSecond: (model: string) => number | null): PrefillModel {
  return {
    durationMs(model, tokens) {
      const pace = tokensPerSecond(model);
      return pace === null ? null : (tokens / pace) * 1000;
    },
  };
}
