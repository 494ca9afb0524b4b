// One finding: a row of the table with the facts of a case put in.
import type { WorkerId } from '../plugin/index.ts';
import { FINDINGS, type FindingCode, type FindingEffect, type FindingRow } from './finding-table.ts';

/** Something that differs between what the router believes and what an engine does. */
export interface Finding {
  readonly code: FindingCode;
  readonly effect: FindingEffect;
  readonly worker: WorkerId;
  /** Null = the worker as a whole. */
  readonly rank: number | null;
  /** What was seen, where. */
  readonly sentence: string;
  /** The flag or key to change. */
  readonly remedy: string;
}

/** Characters of a fact. */
const MAX_FACT = 512;

/** Whom a finding is about. */
export interface FindingSubject {
  readonly worker: WorkerId;
  readonly rank: number | null;
  readonly model: string;
  /** Name of the dialect the worker speaks, for flags in its own words. */
  readonly dialect: string;
}

/** Values for the words in braces; `model` and `rank` are the subject's. */
export type FindingFacts = Readonly<Record<string, string | number>>;

/** A finding in words. A word in braces that has no fact stays as it is. */
export function findingOf(code: FindingCode, subject: FindingSubject, facts: FindingFacts = {}): Finding {
  const { dialect, model, rank, worker } = subject;
  const row: FindingRow = FINDINGS[code];
  const all: FindingFacts = { model, rank: rank ?? 0, ...facts };
  const remedy =
    dialect === 'vllm' || dialect === 'sglang' || dialect === 'trtllm' ? row.remedy[dialect] : undefined;
  const who = rank === null ? `worker ${worker}` : `worker ${worker} rank ${rank}`;
  return {
    code,
    effect: row.effect,
    worker,
    rank,
    sentence: `${who}: ${filled(row.says, all)}`,
    remedy: filled(remedy ?? row.remedy.any, all),
  };
}

function filled(text: string, facts: FindingFacts): string {
  return text.replace(/\{([a-z]+)\}/g, (word, name: string) => shown(String(facts[name] ?? word)));
}

/** Facts come from engines and are read in terminals: no character of theirs moves a cursor or turns text around. */
function shown(fact: string): string {
  const whole = fact.length <= MAX_FACT ? fact : `${fact.slice(0, MAX_FACT)}…`;
  return whole.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd');
}
