// How long each kind of worker takes to compute prompts and output tokens, learnt from when its tokens came. A kind is a model, a role, an
// engine dialect and what the worker says that it runs on.
import { isDeepStrictEqual } from 'node:util';
import type { StatedKind } from '../../config/index.ts';
import type { Fleet } from '../../fleet/index.ts';
import type { OwnerSlot } from '../../kv/index.ts';
import type { Metrics } from '../../observe/index.ts';
import type { WorkerTiming } from '../../plugin/index.ts';
import type { BusyPeriod } from '../request-phases.ts';
import { type KindLabels, TimingKind } from './timing-kind.ts';

/** Kinds told apart; further ones share the last. */
const MAX_KINDS = 64;

/** The kinds of one fleet. */
export class WorkerTimings {
  readonly #fleet: Fleet;
  readonly #kinds: TimingKind[] = [];
  readonly #indexOf = new Map<string, number>();
  /** Kind per slot plus one; 0 = not looked up. */
  #kindOfSlot = new Int32Array(16);
  readonly #timings: WorkerTiming[] = [];
  #shown: readonly WorkerTiming[] | null = null;
  #profile: readonly StatedKind[] = [];

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  /** The times of all kinds now; another array whenever one of them changed. */
  get timings(): readonly WorkerTiming[] {
    this.#shown ??= Object.freeze([...this.#timings]);
    return this.#shown;
  }

  /** Takes what is stated of kinds, the first that fits; those of which another thing is stated than before start anew. */
  setProfile(profile: readonly StatedKind[]): void {
    this.#profile = profile;
    for (const [at, { labels, stated }] of this.#kinds.entries()) {
      const next = statedOf(profile, labels);
      if (isDeepStrictEqual(next, stated)) continue;
      this.#kinds[at] = new TimingKind(labels, next);
      this.#changed(at);
    }
  }

  /** What is known now, as it would be stated: kinds of which nothing was learnt or stated are left out. */
  profile(): readonly StatedKind[] {
    return this.#kinds
      .filter(
        ({ decode, prefill, stated }) => stated !== null || prefill.observations + decode.observations > 0,
      )
      .map(({ decode, labels, prefill, stated }) => ({
        model: labels.model,
        role: labels.role,
        engine: labels.engine,
        device: labels.device,
        prefillTokenMs: prefill.coefficient(0),
        prefillAttentionMs: prefill.coefficient(1),
        prefillPassMs: prefill.coefficient(2),
        decodeMs: decode.coefficient(0),
        decodeFillMs: decode.coefficient(1),
        fixed: stated?.fixed ?? false,
      }));
  }

  /** Has metrics read what was learnt. */
  report(metrics: Metrics): void {
    const read = (value: (timing: WorkerTiming) => number) => () =>
      this.#kinds.map((kind) => ({ labels: kind.labels, value: value(kind.timing()) }));
    metrics.gauge(
      'pointsman_timing_prefill_token_seconds',
      read(({ prefillTokenMs }) => prefillTokenMs / 1e3),
    );
    metrics.gauge(
      'pointsman_timing_prefill_attention_seconds',
      read(({ prefillAttentionMs }) => prefillAttentionMs / 1e3),
    );
    metrics.gauge(
      'pointsman_timing_prefill_pass_seconds',
      read(({ prefillPassMs }) => prefillPassMs / 1e3),
    );
    metrics.gauge(
      'pointsman_timing_decode_seconds',
      read(({ decodeMs }) => decodeMs / 1e3),
    );
    metrics.gauge(
      'pointsman_timing_decode_fill_seconds',
      read(({ decodeFillMs }) => decodeFillMs / 1e3),
    );
    const ofFits = (value: (fit: TimingKind['prefill']) => number) => () =>
      this.#kinds.flatMap(({ labels, prefill, decode }) => [
        { labels: { ...labels, phase: 'prefill' }, value: value(prefill) },
        { labels: { ...labels, phase: 'decode' }, value: value(decode) },
      ]);
    metrics.gauge(
      'pointsman_timing_observations',
      ofFits(({ observations }) => observations),
    );
    metrics.gauge(
      'pointsman_timing_error',
      ofFits(({ error }) => error),
    );
  }

  /** Writes the kind of each of `count` slots. */
  fill(kindOfRow: Float64Array, slots: Int32Array, count: number): void {
    for (let row = 0; row < count; row += 1) kindOfRow[row] = this.#kindOf(slots[row] ?? 0);
  }

  /** A slot stands for another worker from now on. */
  forget(slot: OwnerSlot): void {
    if (slot < this.#kindOfSlot.length) this.#kindOfSlot[slot] = 0;
  }

  /** A slot computed prompts without a pause. */
  prefilled(slot: OwnerSlot, period: BusyPeriod): void {
    const at = this.#kindOf(slot);
    if (this.#kinds[at]?.prefilled(period) === true) this.#changed(at);
  }

  /**
   * An answer of a slot is complete.
   * @param itlMs mean time between its tokens.
   * @param promptTokens booked on the slot meanwhile.
   */
  decoded(slot: OwnerSlot, itlMs: number, promptTokens: number): void {
    const at = this.#kindOf(slot);
    if (this.#kinds[at]?.decoded(itlMs, promptTokens) === true) this.#changed(at);
  }

  #changed(at: number): void {
    const kind = this.#kinds[at];
    if (kind === undefined) return;
    this.#timings[at] = kind.timing();
    this.#shown = null;
  }

  #kindOf(slot: OwnerSlot): number {
    const known = this.#kindOfSlot[slot] ?? 0;
    if (known > 0) return known - 1;
    if (slot >= this.#kindOfSlot.length) this.#grow(slot + 1);
    const at = this.#lookUp(slot);
    this.#kindOfSlot[slot] = at + 1;
    return at;
  }

  #lookUp(slot: OwnerSlot): number {
    const spec = this.#fleet.workerOfSlot(slot)?.spec;
    const labels = {
      model: spec?.model ?? '',
      role: spec?.role ?? 'aggregated',
      engine: spec?.dialect ?? '',
      device: spec?.device ?? '',
    };
    const key = JSON.stringify(Object.values(labels));
    const known = this.#indexOf.get(key);
    if (known !== undefined) return known;
    const at = Math.min(this.#kinds.length, MAX_KINDS - 1);
    if (this.#kinds.length < MAX_KINDS) {
      this.#indexOf.set(key, at);
      this.#kinds.push(new TimingKind(labels, statedOf(this.#profile, labels)));
      this.#changed(at);
    }
    return at;
  }

  #grow(slots: number): void {
    const length = Math.max(slots, 2 * this.#kindOfSlot.length);
    const kinds = new Int32Array(length);
    kinds.set(this.#kindOfSlot);
    this.#kindOfSlot = kinds;
  }
}

/** What a profile says of a kind first; an empty device is one that workers did not say. */
function statedOf(profile: readonly StatedKind[], labels: KindLabels): StatedKind | null {
  const fits = (stated: string | null, label: string) => stated === null || stated === label;
  return (
    profile.find(
      ({ device, engine, model, role }) =>
        fits(model, labels.model) &&
        fits(role, labels.role) &&
        fits(engine, labels.engine) &&
        fits(device, labels.device),
    ) ?? null
  );
}
