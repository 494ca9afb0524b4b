// What `doctor` does with a fleet: probe prompts to every rank, questions to replay endpoints, and the findings that follow.
import type { Worker } from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import {
  type Finding,
  type FindingCode,
  type FindingSubject,
  findingOf,
  WITHOUT_EVENTS,
} from '../parity/index.ts';
import type { Logger, WorkerId } from '../plugin/index.ts';
import { compareTokens, type TokenSource } from '../tokens/index.ts';
import { type Untested, untestedOf } from './doctor-checks.ts';
import { listenInstead, topicOf } from './doctor-connections.ts';
import { type DoctorFleet, dialectOf } from './doctor-fleet.ts';
import {
  engineIds,
  localIds,
  PROBE_BLOCKS,
  type ProbePrompt,
  probeIds,
  probeMessages,
  sendProbe,
} from './doctor-prompts.ts';
import { endpointOf } from './event-subscriptions.ts';

/** Streams get this long to connect, ms. */
const CONNECT_MS = 2_000;
/** Longest wait for judgements and replay answers, ms: a replay endpoint that is silent is given up after 5 s. */
const SETTLED_MS = 8_000;
const POLL_MS = 20;
const MOST_WORKERS_AT_ONCE = 8;

/** How the examination is made. */
export interface Examination {
  readonly tokens: (model: string) => TokenSource | undefined;
  /** Seed of the probe prompts: nobody may have sent them before. */
  readonly seed: number;
  /** No configuration says where workers publish: one that does not say so itself is not blamed for silence. */
  readonly isUrlAlone: boolean;
  /** Told what is done, and what cannot be tested. */
  readonly log: Logger;
}

/** What came of an examination. */
export interface Diagnosis {
  /** By worker and rank. */
  readonly findings: readonly Finding[];
  readonly workers: readonly ExaminedWorker[];
}

/** A worker that was asked. */
export interface ExaminedWorker {
  readonly id: WorkerId;
  readonly url: string;
  readonly model: string;
  /** Checks that could not be made, each once. */
  readonly untested: readonly Untested[];
}

/** Asks every worker. */
export async function examine(doctor: DoctorFleet, examination: Examination): Promise<Diagnosis> {
  const { fleet, monitor, silent } = doctor;
  const { log } = examination;
  const own: Finding[] = [];
  const noted = new Map<WorkerId, Untested[]>();
  const found = (finding: Finding): void => void own.push(finding);
  const workers = fleet.workers().filter(({ spec }) => !silent.has(spec.id));
  for (const worker of fleet.workers()) {
    const problem = silent.get(worker.spec.id);
    if (problem === undefined) continue;
    own.push(findingOf('unreachable', subjectOf(worker, null), { url: worker.spec.url, problem }));
  }
  log.info(`waiting for the KV events of ${workers.length === 1 ? '1 worker' : `${workers.length} workers`}`);
  await until(doctor, CONNECT_MS, () => doctor.subscriptions.status().every(isConnectedOrUnknown));
  const queue = [...workers];
  const next = async (): Promise<void> => {
    for (let worker = queue.shift(); worker !== undefined; worker = queue.shift()) {
      log.info(`worker ${worker.spec.id} at ${worker.spec.url}: sending probe prompts`);
      const untested: Untested[] = [];
      noted.set(worker.spec.id, untested);
      await probeWorker(doctor, worker, examination, {
        found,
        untested: (code, reason) => void untested.push({ code, reason }),
      });
    }
  };
  await Promise.all(Array.from({ length: MOST_WORKERS_AT_ONCE }, next));
  log.info('asking replay endpoints');
  for (const { slots } of workers) for (const slot of slots) monitor.askReplay(slot);
  await until(doctor, SETTLED_MS, () => !monitor.isBusy);
  const heard = monitor.findings();
  const topics = await topicFindings(doctor, workers, heard, examination);
  const endpoints = await endpointFindings(doctor, workers, heard);
  // A cache that is off has nothing to announce: its silence is no fault of its own.
  const isOff = ({ rank, worker }: Finding): boolean =>
    own.some((one) => one.code === 'prefix_caching_off' && one.worker === worker && one.rank === rank);
  const isUnknown = ({ rank, worker: id }: Finding): boolean => {
    const worker = workers.find(({ spec }) => spec.id === id);
    if (!examination.isUrlAlone || worker === undefined || rank === null) return false;
    return endpointOf(worker, rank) === null;
  };
  const told = heard.filter((finding) => {
    if (finding.code !== 'events_off') return true;
    if (isUnknown(finding)) {
      const reason = 'it does not say where it publishes its KV events; workers[].kv_events in --config does';
      noted.get(finding.worker)?.push({ code: 'events_off', reason });
      log.warn(
        `worker ${finding.worker} rank ${finding.rank}: its KV events are not tested, as it does not say where it publishes them; ask with --config, where workers[].kv_events says so`,
      );
      return false;
    }
    return !isOff(finding);
  });
  const findings = merged([...told, ...own, ...topics, ...endpoints]);
  const examined = fleet.workers().map((worker): ExaminedWorker => {
    const { id, model, url } = worker.spec;
    return { id, url, model, untested: untestedOf(doctor, worker, noted.get(id) ?? []) };
  });
  return { findings, workers: examined };
}

/** Told what shows of a worker. */
interface Findings {
  readonly found: (finding: Finding) => void;
  readonly untested: (code: FindingCode, reason: string) => void;
}

async function probeWorker(
  doctor: DoctorFleet,
  worker: Worker,
  { log, seed, tokens }: Examination,
  { found, untested }: Findings,
): Promise<void> {
  const { spec, slots } = worker;
  const blockSize = doctor.blockSizes.ofModel(spec.model) ?? 16;
  const ids = probeIds(PROBE_BLOCKS * blockSize + 3, seed);
  for (const [nth, slot] of slots.entries()) {
    const rank = spec.ranks.first + nth;
    const subject = subjectOf(worker, rank);
    const send = async (prompt: Omit<ProbePrompt, 'worker' | 'rank'>): Promise<number | null | undefined> => {
      const result = await sendProbe(doctor, { worker, rank, ...prompt });
      await until(doctor, SETTLED_MS, () => !doctor.monitor.isBusy);
      if (result.kind === 'answered') return result.report.cachedTokens;
      log.warn(`worker ${spec.id} rank ${rank}: a probe failed: ${result.problem}`);
      if (prompt.adapter === undefined && prompt.cacheSalt === undefined)
        found(findingOf('refused_probe', subject, { problem: result.problem }));
      return undefined;
    };
    const before = await send({ tokens: ids, isUnique: true });
    if (before === undefined) continue;
    const again = await send({ tokens: ids, isUnique: false });
    const isOff = worker.engine?.description.prefixCaching === false;
    if (again === 0 || (again === null && isOff)) found(findingOf('prefix_caching_off', subject));
    else if (again === null) {
      untested('prefix_caching_off', 'it does not report cached tokens');
      // An engine that leaves out what is zero says nothing of a prompt that it does not have.
      if (hasAnnounced(doctor, slot))
        found(
          findingOf('cached_not_reported', subject, {
            problem: 'nothing was said of a prompt of which it had announced blocks',
          }),
        );
    }
    const cacheSalt = `pointsman-doctor-${seed.toString(36)}`;
    const salted = await send({ tokens: ids, cacheSalt, isUnique: true });
    if (WITHOUT_EVENTS.has(subject.dialect)) untested('salt_ignored', 'its engine knows no cache salts');
    else if ((salted ?? 0) >= blockSize) found(findingOf('salt_ignored', subject));
    else if (salted === undefined) untested('salt_ignored', 'it refuses a prompt with cache_salt');
    const [adapter] = adaptersOf(worker);
    if (adapter === undefined) untested('lora_mismatch', 'no adapters are configured for it');
    else if ((await send({ tokens: ids, adapter, isUnique: true })) === undefined)
      untested('lora_mismatch', `it refuses a prompt for adapter ${adapter}`);
    const messages = probeMessages(PROBE_BLOCKS * blockSize, seed ^ slot);
    const source = tokens(spec.model);
    const local = await localIds(source, messages, log);
    if (local === null) {
      untested('template', `model ${spec.model} has no tokenizer here`);
      log.info(
        `worker ${spec.id}: its chat template is not tested, as no chat of model ${spec.model} is rendered here`,
      );
      continue;
    }
    await send({ tokens: local, messages, isUnique: true });
    const theirs = await engineIds(doctor, worker, messages);
    const agreement = theirs === null ? null : compareTokens(local, theirs, source?.facts ?? null);
    if (agreement?.agrees === false) found(findingOf('template', subject, { problem: agreement.words }));
  }
}

/** Ranks that are connected and silent: whether they publish under another topic than the one that is listened to. */
async function topicFindings(
  doctor: DoctorFleet,
  workers: readonly Worker[],
  heard: readonly Finding[],
  { seed }: Examination,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { code, rank, worker: id } of heard) {
    const worker = workers.find(({ spec }) => spec.id === id);
    if (code !== 'events_off' || worker === undefined || rank === null) continue;
    const endpoint = endpointOf(worker, rank);
    // Without a topic everything is heard; where the engine connects to the router, nobody else can listen.
    if (endpoint === null || endpoint.binds || endpoint.topic === '') continue;
    const blockSize = doctor.blockSizes.ofModel(worker.spec.model) ?? 16;
    const topic = await topicOf(endpoint.address, doctor.clock, async (nth) => {
      const tokens = probeIds(PROBE_BLOCKS * blockSize + 3, seed ^ (0x7070 + nth));
      return (await sendProbe(doctor, { worker, rank, tokens, isUnique: true })).kind === 'answered';
    });
    if (topic === null || topic.startsWith(endpoint.topic)) continue;
    const facts = { expected: endpoint.topic, found: topic };
    findings.push(findingOf('topic', subjectOf(worker, rank), facts));
  }
  return findings;
}

/** Ranks that nobody is connected to: what listens, or does not, at their endpoints. */
async function endpointFindings(
  doctor: DoctorFleet,
  workers: readonly Worker[],
  heard: readonly Finding[],
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { code, rank, worker: id } of heard) {
    const worker = workers.find(({ spec }) => spec.id === id);
    if (code !== 'not_connected' || worker === undefined || rank === null) continue;
    const endpoint = endpointOf(worker, rank);
    if (endpoint === null || endpoint.binds) continue;
    // Its own subscription would be taken for the engine.
    doctor.subscriptions.close();
    const verdict = await listenInstead(endpoint.address, doctor.clock);
    const subject = subjectOf(worker, rank);
    const facts = { endpoint: endpoint.address, port: endpoint.address.split(':').at(-1) ?? '' };
    if (verdict === 'engine_connects') findings.push(findingOf('literal_bind_address', subject, facts));
    else if (verdict === 'nobody')
      findings.push(
        findingOf('events_off', subject, { problem: `nothing publishes at ${endpoint.address}` }),
      );
  }
  return findings;
}

/** What is known better replaces what it explains. */
const EXPLAINED: ReadonlyMap<FindingCode, readonly FindingCode[]> = new Map<
  FindingCode,
  readonly FindingCode[]
>([
  ['topic', ['events_off', 'no_replay']],
  ['literal_bind_address', ['not_connected', 'events_off']],
  ['events_off', ['not_connected', 'no_replay']],
  ['prefix_caching_off', ['no_replay']],
]);

function merged(findings: readonly Finding[]): Finding[] {
  const kept: Finding[] = [];
  for (const finding of findings) {
    const { code, rank, worker } = finding;
    const isTold = kept.some((one) => one.code === code && one.worker === worker && one.rank === rank);
    if (!isTold) kept.push(finding);
  }
  const isExplained = ({ code, rank, worker }: Finding): boolean =>
    kept.some(
      (one) => one.worker === worker && one.rank === rank && EXPLAINED.get(one.code)?.includes(code) === true,
    );
  return kept
    .filter((finding) => !isExplained(finding))
    .sort((a, b) => Number(a.worker - b.worker) || (a.rank ?? -1) - (b.rank ?? -1));
}

function hasAnnounced({ events }: DoctorFleet, slot: OwnerSlot): boolean {
  return (events.feed(slot)?.batches ?? 0) > 0;
}

function adaptersOf({ capabilities, spec }: Worker): readonly string[] {
  return [...new Set([...(spec.adapters ?? []), ...(capabilities?.adapters ?? [])])];
}

function subjectOf({ engine = null, spec }: Worker, rank: number | null): FindingSubject {
  return { worker: spec.id, rank, model: spec.model, dialect: dialectOf({ engine, spec }) };
}

function isConnectedOrUnknown({
  connected,
  endpoint,
}: {
  connected: boolean;
  endpoint: string | null;
}): boolean {
  return connected || endpoint === null;
}

/** Waits for a condition, at most so long. */
async function until({ clock }: DoctorFleet, ms: number, condition: () => boolean): Promise<void> {
  let isOver = false;
  const cancel = clock.schedule(ms, () => {
    isOver = true;
  });
  while (!condition() && !isOver) await new Promise<void>((resolve) => void clock.schedule(POLL_MS, resolve));
  cancel();
}
