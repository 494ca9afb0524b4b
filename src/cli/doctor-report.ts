// What `doctor` found, as text for people and as JSON for programs; docs/parity.md has the members.
import type { FindingCode } from '../parity/index.ts';
import { DOCTOR_CHECKS, type Untested } from './doctor-checks.ts';
import type { Diagnosis, ExaminedWorker } from './doctor-examine.ts';

/** Findings, and with `verbose` the checks of each worker before them. */
export function diagnosisText(diagnosis: Diagnosis, verbose: boolean): string {
  const checks = verbose ? diagnosis.workers.map((worker) => checksText(worker, diagnosis)).join('') : '';
  return checks + findingsText(diagnosis);
}

/** The same as one object. */
export function diagnosisJson(diagnosis: Diagnosis): unknown {
  const { findings } = diagnosis;
  return {
    healthy: findings.length === 0,
    workers: diagnosis.workers.map((worker) => ({
      ...{ id: worker.id, url: worker.url, model: worker.model },
      passed: passed(worker, diagnosis),
      untested: untestedOf(worker, diagnosis),
    })),
    checks: DOCTOR_CHECKS,
    findings,
  };
}

function findingsText({ findings, workers: asked }: Diagnosis): string {
  const count = asked.length;
  const workers = count === 1 ? 'the worker does' : `all ${count} workers do`;
  if (findings.length === 0) return `Healthy: ${workers} what the router believes.\n`;
  const lines = findings.flatMap(({ code, effect, remedy, sentence }) => [
    `${effect === 'unusable' ? 'FAULT' : 'fault'}  ${code}`,
    `       ${sentence}`,
    `       change: ${remedy}`,
    '',
  ]);
  const unusable = findings.filter(({ effect }) => effect === 'unusable').length;
  const end =
    unusable === 0
      ? ''
      : ' While a FAULT (in capitals) lasts, the KV events of that rank are of no use and its cache is estimated.';
  const faults = findings.length === 1 ? '1 fault' : `${findings.length} faults`;
  return `${lines.join('\n')}${faults}.${end}\n`;
}

function checksText(worker: ExaminedWorker, diagnosis: Diagnosis): string {
  const lines = [
    `worker ${worker.id} at ${worker.url}`,
    ...passed(worker, diagnosis).map((code) => `  ok          ${code}`),
    ...untestedOf(worker, diagnosis).map(({ code, reason }) => `  not tested  ${code}: ${reason}`),
    ...[...foundOf(worker, diagnosis)].map((code) => `  found       ${code}`),
  ];
  return `${lines.join('\n')}\n\n`;
}

function passed(worker: ExaminedWorker, diagnosis: Diagnosis): readonly FindingCode[] {
  const untested = new Set(worker.untested.map(({ code }) => code));
  const found = foundOf(worker, diagnosis);
  return DOCTOR_CHECKS.filter((code) => !untested.has(code) && !found.has(code));
}

/** What was found by another way after all is not untested. */
function untestedOf(worker: ExaminedWorker, diagnosis: Diagnosis): readonly Untested[] {
  const found = foundOf(worker, diagnosis);
  return worker.untested.filter(({ code }) => !found.has(code));
}

function foundOf({ id }: ExaminedWorker, { findings }: Diagnosis): ReadonlySet<FindingCode> {
  return new Set(findings.filter(({ worker }) => worker === id).map(({ code }) => code));
}
