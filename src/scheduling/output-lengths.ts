// How long the answers of each partition are: a mean over those that finished, in which the last ones weigh most.
import type { Partition } from '../plugin/index.ts';

/** Answers that count: the mean of all until there were so many, then each new one weighs one part of so many. */
const MEMORY = 128;

/** No answer is longer: an engine that says so says nothing of lengths. */
const MOST = 2 ** 20;

interface Length {
  mean: number;
  count: number;
}

/** The means. One entry per model and routing group that finished an answer. */
export class OutputLengths {
  readonly #byModel = new Map<string, Map<string, Length>>();

  /** An answer finished with so many tokens; less than 1, more than 2²⁰, or no number, is not counted. */
  finished({ model, routingGroup }: Partition, tokens: number): void {
    if (!(tokens >= 1 && tokens <= MOST)) return;
    const groups = this.#byModel.get(model) ?? new Map<string, Length>();
    const length = groups.get(routingGroup) ?? { mean: 0, count: 0 };
    this.#byModel.set(model, groups.set(routingGroup, length));
    length.count = Math.min(MEMORY, length.count + 1);
    length.mean += (tokens - length.mean) / length.count;
  }

  /** Mean tokens; null = none has finished. */
  meanOf({ model, routingGroup }: Partition): number | null {
    return this.#byModel.get(model)?.get(routingGroup)?.mean ?? null;
  }
}
