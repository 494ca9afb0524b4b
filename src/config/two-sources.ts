// A configuration and the policy file beside it, as one source: each problem is shown in the file that its path stands in.
import type { TextSource } from './text-source.ts';
import type { ConfigPath, ConfigProblem, ConfigSource } from './types.ts';

/** Two texts whose keys were joined. Relative paths start from the first one's folder. */
export class TwoSources implements ConfigSource {
  readonly file: string;
  readonly folder: string;
  readonly #main: TextSource;
  readonly #policy: TextSource;

  constructor(main: TextSource, policy: TextSource) {
    this.file = main.file;
    this.folder = main.folder;
    this.#main = main;
    this.#policy = policy;
  }

  render(problem: ConfigProblem, options: { readonly excerpt?: boolean } = {}): string {
    return this.#sourceOf(problem).render(problem, options);
  }

  locate(problem: ConfigProblem): { readonly line: number; readonly column: number } | null {
    return this.#sourceOf(problem).locate(problem);
  }

  /** The file that holds more of a path; the configuration where both hold the same of it. */
  fileOf(path: ConfigPath): string {
    return this.#holderOf(path).file;
  }

  /** The configuration's problems from its top, then the policy file's. */
  inOrder(problems: readonly ConfigProblem[]): ConfigProblem[] {
    const inPolicy = (problem: ConfigProblem): boolean => this.#sourceOf(problem) === this.#policy;
    return [
      ...this.#main.inOrder(problems.filter((problem) => !inPolicy(problem))),
      ...this.#policy.inOrder(problems.filter(inPolicy)),
    ];
  }

  #sourceOf({ file, path }: ConfigProblem): TextSource {
    if (file !== undefined) return file === this.#policy.file ? this.#policy : this.#main;
    return this.#holderOf(path);
  }

  #holderOf(path: ConfigPath): TextSource {
    return this.#policy.depth(path) > this.#main.depth(path) ? this.#policy : this.#main;
  }
}
