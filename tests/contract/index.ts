// Every rule of the plugin contract, in the order of the page.
import { CREATION_RULES } from './creation.ts';
import { DEFINITIONS_RULES } from './definitions.ts';
import { INPUTS_RULES } from './inputs.ts';
import { PARAMETERS_RULES } from './parameters.ts';
import type { ContractSection } from './rule.ts';

/** The contract. */
export const CONTRACT: readonly ContractSection[] = [
  DEFINITIONS_RULES,
  PARAMETERS_RULES,
  INPUTS_RULES,
  CREATION_RULES,
];
