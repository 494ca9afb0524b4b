// The newest verdicts on prompts of one rank.
import type { PromptVerdict } from './prompt-verdict.ts';

/** Verdicts remembered. What was cured is forgotten after as many prompts. */
const WINDOW = 32;

/** Verdicts that say something. */
export type CountedVerdict = Exclude<PromptVerdict['kind'], 'unclear'>;

/** Newest details, for sentences. */
export interface NewestVerdicts {
  tokens: string | null;
  lora: { readonly asked: string | null; readonly found: string | null } | null;
  chain: { readonly found: number; readonly of: number } | null;
}

/** Counts the newest {@link WINDOW} verdicts by kind. */
export class VerdictCounts {
  readonly #kinds: CountedVerdict[] = [];
  readonly newest: NewestVerdicts = { tokens: null, lora: null, chain: null };

  /** @param asked adapter of the prompt; null = none. */
  add(verdict: PromptVerdict, asked: string | null): void {
    if (verdict.kind === 'unclear') return;
    this.#kinds.push(verdict.kind);
    if (this.#kinds.length > WINDOW) this.#kinds.shift();
    if (verdict.kind === 'tokens') this.newest.tokens = verdict.problem;
    else if (verdict.kind === 'lora') this.newest.lora = { asked, found: verdict.found };
    else if (verdict.kind === 'chain') this.newest.chain = { found: verdict.found, of: verdict.of };
  }

  of(kind: CountedVerdict): number {
    let count = 0;
    for (const one of this.#kinds) if (one === kind) count += 1;
    return count;
  }

  clear(): void {
    this.#kinds.length = 0;
  }
}
