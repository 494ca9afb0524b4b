// What the plugin contract is made of: rules, each with the test that holds it and a fault that must make that test fail.

/** One rule. */
export interface ContractRule {
  /** Stands for the rule in pages and commands: `hint-order`. */
  readonly id: string;
  /** The rule in one sentence. */
  readonly rule: string;
  readonly test: RuleTest;
  readonly fault: PlantedFault;
}

/** The test that fails when the rule is broken. */
export interface RuleTest {
  readonly file: string;
  /** `suite > test`. */
  readonly name: string;
  /** `run`: the test is run. `compiler`: its text must not compile. `process`: it runs the built program. Default `run`. */
  readonly by?: 'run' | 'compiler' | 'process';
}

/** A change that breaks the rule. */
export interface PlantedFault {
  readonly file: string;
  /** Stands exactly once in the file. */
  readonly text: string;
  readonly instead: string;
}

/** Rules about one thing. */
export interface ContractSection {
  readonly title: string;
  /** Said before the rules. */
  readonly intro?: string;
  readonly rules: readonly ContractRule[];
}

/** A rule from its parts. */
export function rule(id: string, sentence: string, test: RuleTest, fault: PlantedFault): ContractRule {
  return { id, rule: sentence, test, fault };
}

/** A test that is run. */
export function test(file: string, name: string): RuleTest {
  return { file, name };
}

/** A test whose text must not compile while the fault is planted. */
export function types(name: string): RuleTest {
  return { file: 'src/plugin/type-inference.test.ts', name, by: 'compiler' };
}

/** A change in one place. */
export function fault(file: string, text: string, instead: string): PlantedFault {
  return { file, text, instead };
}
