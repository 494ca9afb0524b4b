// Whether engines do what the router believes: evidence, checks, audit, findings.
export { type Finding, type FindingSubject, findingOf } from './finding.ts';
export { FINDINGS, type FindingCode } from './finding-table.ts';
export { ParityMonitor } from './parity-monitor.ts';
export type { ParityMonitorOptions, RankStream } from './parity-types.ts';
export { type EvidenceNeeded, NEEDED_ASKING, NEEDED_LISTENING, WITHOUT_EVENTS } from './rank-findings.ts';
