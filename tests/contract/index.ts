// Every rule of the plugin contract, in the order of the page.

import { AUTHOR_RULES } from './authors.ts';
import { BOOKING_RULES } from './bookings.ts';
import { LIFECYCLE_RULES, REFUSAL_RULES } from './classifier-life.ts';
import { CLASSIFIER_THREAD_RULES } from './classifier-threads.ts';
import { CLASSIFIER_RULES, CLASSIFY_RULES } from './classifiers.ts';
import { COMMITMENT_RULES } from './commitments.ts';
import { GRAMMAR_RULES } from './configuration.ts';
import { CONTAINMENT_RULES } from './containment.ts';
import { COMMIT_RULES, COPY_RULES } from './copies.ts';
import { CREATION_RULES } from './creation.ts';
import { DEFINITIONS_RULES } from './definitions.ts';
import { CONTEXT_RULES } from './hint-context.ts';
import { STAGE_RULES } from './hints.ts';
import { INCOMING_RULES } from './incoming.ts';
import { INPUTS_RULES } from './inputs.ts';
import { ISOLATION_RULES } from './isolation.ts';
import { LEARNT_INPUTS_RULES } from './learnt-inputs.ts';
import { LOADING_RULES, REGISTER_RULES } from './loading.ts';
import { METRICS_RULES } from './metrics.ts';
import { OUTPUT_RULES } from './outputs.ts';
import { OWN_POLICY_RULES } from './own-policies.ts';
import { PARAMETERS_RULES } from './parameters.ts';
import { PICKING_RULES } from './picking.ts';
import { KVCR_RULES, POLICY_RULES } from './policies.ts';
import { RELOAD_RULES } from './reload.ts';
import type { ContractSection } from './rule.ts';
import { COLUMN_RULES, COMPONENT_RULES } from './selection.ts';
import { SESSION_POLICY_RULES } from './session-policies.ts';
import { START_RULES } from './start.ts';

/** The contract. */
export const CONTRACT: readonly ContractSection[] = [
  DEFINITIONS_RULES,
  PARAMETERS_RULES,
  INPUTS_RULES,
  LEARNT_INPUTS_RULES,
  CREATION_RULES,
  REGISTER_RULES,
  LOADING_RULES,
  CLASSIFIER_RULES,
  CLASSIFY_RULES,
  REFUSAL_RULES,
  LIFECYCLE_RULES,
  COMPONENT_RULES,
  COLUMN_RULES,
  PICKING_RULES,
  COMMITMENT_RULES,
  POLICY_RULES,
  KVCR_RULES,
  OWN_POLICY_RULES,
  SESSION_POLICY_RULES,
  CONTEXT_RULES,
  OUTPUT_RULES,
  COPY_RULES,
  STAGE_RULES,
  COMMIT_RULES,
  INCOMING_RULES,
  BOOKING_RULES,
  ISOLATION_RULES,
  CLASSIFIER_THREAD_RULES,
  GRAMMAR_RULES,
  START_RULES,
  CONTAINMENT_RULES,
  RELOAD_RULES,
  METRICS_RULES,
  AUTHOR_RULES,
];
