// A host whose hint policies run in threads, for tests: plugins come from files that the test writes, capabilities from a fleet of
// one worker that takes every action.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, parseConfig } from '../../config/index.ts';
import { createMetrics } from '../../observe/index.ts';
import { type LogFields, ManualClock } from '../../plugin/index.ts';
import type { ClassifierFleet } from '../classifier-site.ts';
import { hintBooking, hintFleet } from '../hint.fixtures.ts';
import {
  createPluginHost,
  type HintBooking,
  type HintFleet,
  type HintStageResult,
  type PendingHints,
  type ResolvedPluginHost,
} from '../index.ts';
import { LOAD_LIMIT_MS } from '../time-limit.ts';

export const PARTITION = { model: 'tiny', routingGroup: 'default' };

/** What the tests of one file make and leave behind. */
export class IsolationBench {
  readonly #folder = mkdtempSync(join(tmpdir(), 'isolation-'));
  readonly #hosts: ResolvedPluginHost[] = [];
  /** Those of the test runner. */
  readonly #ports = openPorts();

  /** Where a file of that name stands, or would. */
  path(name: string): string {
    return join(this.#folder, name);
  }

  /** Writes a plugin file. */
  write(name: string, text: string): void {
    writeFileSync(this.path(name), text);
  }

  /** A host from YAML; `threads` false = as in virtual time. */
  async host(
    yaml: string,
    options: {
      readonly threads?: boolean;
      readonly fleet?: HintFleet & Partial<ClassifierFleet>;
    } = {},
  ) {
    const clock = new ManualClock(1_000_000);
    const logged: { level: string; message: string; fields: LogFields | undefined }[] = [];
    const line = (level: string) => (message: string, fields?: LogFields) => {
      logged.push({ level, message, fields });
    };
    const metrics = createMetrics();
    const { config, source } = parseConfig(yaml, join(this.#folder, 'router.yaml'));
    const host = await createPluginHost({
      config,
      source,
      clock,
      seed: 5,
      log: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
      metrics,
      fleet: options.fleet ?? hintFleet(),
      containment: { wallMs: () => clock.now(), running: null },
      ...(options.threads === false ? {} : { threads: { modules: {} } }),
    });
    this.#hosts.push(host);
    const runtime = host.roleRuntime(PARTITION, 'aggregated', 16);
    const start = (
      over: Partial<HintBooking> = {},
    ): { started: HintStageResult | PendingHints; result: Promise<HintStageResult> } => {
      let settle: (result: HintStageResult) => void = () => undefined;
      const late = new Promise<HintStageResult>((resolve) => {
        settle = resolve;
      });
      const given = hintBooking(over);
      const started =
        runtime.threadedHints?.start(given, (result) => settle(result)) ?? runtime.hintStage?.run(given);
      if (started === undefined) throw new Error('the role has no hint stage');
      return { started, result: 'pending' in started ? late : Promise.resolve(started) };
    };
    const run = (over: Partial<HintBooking> = {}): Promise<HintStageResult> => start(over).result;
    /** Runs until the thread answers again. */
    const untilReady = async (): Promise<void> => {
      for (;;) {
        const { policies } = await run();
        if (policies.every(({ reason }) => reason !== 'restarting')) return;
        await new Promise((resolve) => setTimeout(resolve, 5));
        // Pauses between threads pass at once; the time a thread has for loading does not.
        const next = clock.nextTimerAt() ?? clock.now();
        if (next - clock.now() < LOAD_LIMIT_MS / 2) clock.advanceTo(next);
      }
    };
    return { host, runtime, clock, metrics, logged, start, run, untilReady };
  }

  /** The problems of YAML that cannot be started. */
  async problems(yaml: string): Promise<readonly string[]> {
    try {
      await this.host(yaml);
    } catch (thrown) {
      if (!(thrown instanceof ConfigError)) throw thrown;
      return thrown.report().replaceAll(`${this.#folder}/`, '').split('\n');
    }
    return [];
  }

  /** Waits until no thread of a plugin is left; for ever, if one is. */
  async untilNoThread(): Promise<void> {
    while (openPorts() > this.#ports) await new Promise((resolve) => setImmediate(resolve));
  }

  async disposeHosts(): Promise<void> {
    for (const host of this.#hosts.splice(0)) await host.dispose();
  }

  async close(): Promise<void> {
    await this.disposeHosts();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The one that carries its messages, and the one that carries its output. */
export const PORTS_PER_THREAD = 2;

/** Ports of threads that live, the test runner's among them. */
export function openPorts(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'MessagePort').length;
}

/** What each policy did, in words. */
export const outcomes = ({ policies }: HintStageResult): string[] =>
  policies.map(({ name, result, reason }) => [name, result, reason].filter(Boolean).join(' '));
