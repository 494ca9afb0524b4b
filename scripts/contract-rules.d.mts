import type { ContractRule, ContractSection } from '../tests/contract/rule.ts';

/** The sections with their rules. */
export function readContract(): Promise<ContractSection[]>;
/** What is wrong with rules before anything is run. */
export function contractProblems(root: string, rules: readonly ContractRule[]): string[];
/** The page. */
export function readLater(): Promise<readonly string[]>;
export function contractPage(sections: readonly ContractSection[], later: readonly string[]): string;
