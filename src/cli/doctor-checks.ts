// Which checks `doctor` makes of a worker, and which of them say nothing of it: an examination that could not be made is not one that was
// passed.
import type { Worker } from '../fleet/index.ts';
import { FINDINGS, type FindingCode } from '../parity/index.ts';
import type { DoctorFleet } from './doctor-fleet.ts';

/** A check that could not be made. */
export interface Untested {
  readonly code: FindingCode;
  /** Why, in a few words. */
  readonly reason: string;
}

/** Only many requests show these. */
const OF_TRAFFIC: ReadonlySet<FindingCode> = new Set(['over_predicted', 'under_predicted']);

/** Checks that read what a rank announces. */
const OF_EVENTS: readonly FindingCode[] = [
  'block_size',
  'page_size_1',
  'hash_seed',
  'hash_chain',
  'swapped_ranks',
  'hybrid_groups',
  'lora_mismatch',
  'replay_old',
  'no_replay',
  'event_clock',
  'duplicate_stores',
  'event_gaps',
];

/** Checks that `doctor` makes, in the order of docs/parity.md. */
export const DOCTOR_CHECKS: readonly FindingCode[] = codes().filter((code) => !OF_TRAFFIC.has(code));

/** What is not known of a worker after its examination. @param noted what showed meanwhile. */
export function untestedOf(doctor: DoctorFleet, worker: Worker, noted: readonly Untested[]): Untested[] {
  const { events, fleet, silent } = doctor;
  const { id, model } = worker.spec;
  const all = (list: readonly FindingCode[], reason: string): Untested[] =>
    list.map((code) => ({ code, reason }));
  if (silent.has(id))
    return all(
      DOCTOR_CHECKS.filter((code) => code !== 'unreachable'),
      'it does not answer',
    );
  const isHeard = worker.slots.some((slot) => (events.feed(slot)?.batches ?? 0) > 0);
  const isAlone = !fleet.workers().some(({ spec }) => spec.model === model && spec.id !== id);
  const found = [
    ...noted,
    ...(isHeard ? [] : all(OF_EVENTS, 'none of its KV events was heard')),
    ...(isAlone ? all(['hash_seed'], `no other worker of model ${model} is there to compare with`) : []),
  ];
  // The first reason is the one that was met.
  return found.filter(({ code }, at) => found.findIndex((one) => one.code === code) === at);
}

function codes(): FindingCode[] {
  return Object.keys(FINDINGS).filter((name): name is FindingCode => Object.hasOwn(FINDINGS, name));
}
