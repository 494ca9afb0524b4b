// What a plugin tells the router from its thread beside its answers, log lines and numbers: gathered, capped and sent now and then, so
// that a plugin that tells too much costs the router nothing.
import type { LogFields, Logger, PluginMetrics } from '../../plugin/index.ts';
import { boundedMetrics, type MeterRule, type MeterSink } from '../meter-input.ts';
import { logCall } from '../plugin-log.ts';
import { type FromThread, MOST_READINGS, MOST_TEXT, wireFields } from './messages.ts';

/** Lines of a plugin's log that leave the thread within a second. */
const LINES_PER_SECOND = 100;
/** Numbers are gathered for so long before they are sent; ms. */
const GATHER_MS = 250;

type Numbers = Extract<FromThread, { kind: 'numbers' }>;

/** What reports work with. */
export interface ReportPorts {
  readonly send: (message: FromThread) => void;
  /** Ms of the machine. */
  readonly now: () => number;
  /** Calls once after so many ms. */
  readonly after: (delayMs: number, callback: () => void) => void;
}

/** The reports of one thread. */
export class ThreadReports {
  readonly log: Logger;
  readonly #ports: ReportPorts;
  readonly #meters = new Map<number, SiteMeter>();
  #second = 0;
  #lines = 0;
  #droppedLines = 0;
  #waiting = false;

  constructor(ports: ReportPorts) {
    this.#ports = ports;
    const line = (level: keyof Logger) => (message: string, fields?: LogFields) =>
      this.#line(level, message, fields);
    this.log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
  }

  /** What the policy of a site is given. */
  metricsOf(site: number): PluginMetrics {
    const meter = new SiteMeter(() => this.#soon());
    this.#meters.set(site, meter);
    return boundedMetrics(meter);
  }

  /** The policy of a site is gone; what it told last is sent. */
  forget(site: number): void {
    while (this.#meters.get(site)?.dirty) this.flush();
    this.#meters.delete(site);
  }

  /** Sends what was gathered, as much as goes into one message. */
  flush(): void {
    const { send } = this.#ports;
    const numbers: Numbers = { kind: 'numbers', readings: [], complaints: [] };
    for (const [site, meter] of this.#meters) if (meter.dirty) meter.take(site, numbers);
    if (numbers.readings.length + numbers.complaints.length > 0) send(numbers);
    if (this.#droppedLines > 0) send({ kind: 'lines_dropped', lines: this.#droppedLines });
    this.#droppedLines = 0;
  }

  #line(level: keyof Logger, message: unknown, fields: unknown): void {
    const second = Math.floor(this.#ports.now() / 1000);
    if (second !== this.#second) this.#lines = 0;
    this.#second = second;
    this.#lines += 1;
    if (this.#lines > LINES_PER_SECOND) {
      this.#droppedLines += 1;
      this.#soon();
      return;
    }
    const call = logCall(message, fields);
    const text = call.message.slice(0, MOST_TEXT);
    this.#ports.send({ kind: 'log', level, message: text, fields: wireFields(call.fields) });
  }

  #soon(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.#ports.after(GATHER_MS, () => {
      this.#waiting = false;
      this.flush();
      if ([...this.#meters.values()].some(({ dirty }) => dirty)) this.#soon();
    });
  }
}

interface Reading {
  readonly name: string;
  readonly label: string;
  value: number;
}

/** Numbers of one policy since the last report. */
class SiteMeter implements MeterSink {
  readonly #changed: () => void;
  readonly #counts = new Map<string, Reading>();
  readonly #gauges = new Map<string, Reading>();
  readonly #complaints = new Set<MeterRule>();
  readonly #complained = new Set<MeterRule>();

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  get dirty(): boolean {
    return this.#counts.size + this.#gauges.size + this.#complaints.size > 0;
  }

  count(name: string, label: string, by: number): void {
    const key = `${name}\u0000${label}`;
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { name, label, value: by });
    else known.value = Math.min(Number.MAX_VALUE, known.value + by);
    this.#changed();
  }

  gauge(name: string, label: string, value: number): void {
    this.#gauges.set(`${name}\u0000${label}`, { name, label, value });
    this.#changed();
  }

  complain(rule: MeterRule): void {
    if (this.#complained.has(rule)) return;
    this.#complained.add(rule);
    this.#complaints.add(rule);
    this.#changed();
  }

  /** Moves what it has to a report that has room. */
  take(site: number, { readings, complaints }: Numbers): void {
    for (const rule of this.#complaints) {
      if (complaints.length >= MOST_READINGS) break;
      complaints.push([site, rule]);
      this.#complaints.delete(rule);
    }
    for (const [which, gathered] of [['count', this.#counts] as const, ['gauge', this.#gauges] as const]) {
      for (const [key, { name, label, value }] of gathered) {
        if (readings.length >= MOST_READINGS) return;
        readings.push([site, which, name, label, value]);
        gathered.delete(key);
      }
    }
  }
}
