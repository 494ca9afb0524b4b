import type { PlantedFault, RuleTest } from '../tests/contract/rule.ts';

/** How one test went. `missing`: it did not run; `reason` says why. */
export interface TestVerdict {
  readonly status: 'passed' | 'failed' | 'missing';
  readonly reason: string;
}

/** A copy of the repository in which faults are planted and tests run. */
export class FaultLane {
  constructor(root: string);
  readonly folder: string;
  /** Ends what runs and removes the copy. */
  close(): void;
  /** Plants a fault; the function returned takes it out again. */
  plant(fault: PlantedFault): () => void;
  /** Runs tests; answers how each went, by `file: name`. */
  run(tests: readonly RuleTest[]): Promise<Map<string, TestVerdict>>;
  /** Takes over what is built in another copy or the repository, if anything is. */
  takeBuild(folder: string): void;
}
