// What runs in a plugin's thread: it creates the policy for each partition and role it is told of, and calls it. Nothing of the
// router is here but the contract, the loader and the checks of what a policy returns.
import {
  type AnyCreateContext,
  type AnyHintPolicy,
  type Clock,
  errorText,
  type Logger,
  MAX_HINT_ACTIONS,
  PointsmanError,
  seededRng,
} from '../../plugin/index.ts';
import type { PreparedHint } from '../catalog.ts';
import { checkHintPolicy } from '../created-policy.ts';
import { type DropReason, judgeOutput, type NamedActions, refusalText } from '../hint-output.ts';
import { MAX_ENVELOPE_BYTES } from '../hint-payload.ts';
import { type FromThread, MOST_TEXT, type ToThread, type WireThrown } from './messages.ts';
import { readContext } from './wire-context.ts';

/** What a guest works with. */
export interface GuestPorts {
  readonly prepared: PreparedHint;
  readonly send: (message: FromThread) => void;
  readonly log: Logger;
  /** Its reading is set by every message that carries one. */
  readonly clock: Clock & { setNow(nowMs: number): void };
}

type Create = Extract<ToThread, { kind: 'create' }>;
type Call = Extract<ToThread, { kind: 'call' }>;

/** The policies of one configured instance. */
export class ThreadGuest {
  readonly #ports: GuestPorts;
  /** By site; what `create` threw where there is no policy. */
  readonly #sites = new Map<number, AnyHintPolicy | { readonly failed: WireThrown }>();

  constructor(ports: GuestPorts) {
    this.#ports = ports;
  }

  /** Takes a message; never throws. Answers whether that was the last one. */
  async take(message: ToThread): Promise<boolean> {
    switch (message.kind) {
      case 'create':
        this.#create(message);
        return false;
      case 'dispose':
        await this.#dispose(message.site);
        return false;
      case 'call':
        this.#ports.send(this.#call(message));
        return false;
      case 'end':
        for (const site of this.#sites.keys()) await this.#dispose(site);
        this.#ports.send({ kind: 'ended' });
        return true;
    }
  }

  #create({ site, seed, nowMs, place }: Create): void {
    const { prepared, clock, log, send } = this.#ports;
    clock.setNow(nowMs);
    const metrics = { count: () => undefined, gauge: () => undefined };
    const base = { parameters: undefined, clock, rng: seededRng(seed), log, metrics };
    try {
      // A shared policy gets no partition, as its own type of `create` says.
      const created = prepared.create({ ...base, ...place } as AnyCreateContext);
      this.#sites.set(site, checkHintPolicy(created, `hint policy ${prepared.type}`));
      send({ kind: 'created', site });
    } catch (error) {
      const failed = wireThrown(error);
      this.#sites.set(site, { failed });
      send({ kind: 'refused', site, text: failed.text });
    }
  }

  #call({ call, site, nowMs, context }: Call): FromThread {
    const { prepared, clock } = this.#ports;
    const dropped = (reason: DropReason & Dropped['reason'], thrown: WireThrown | null = null) =>
      ({ kind: 'dropped', call, reason, thrown }) as const;
    const policy = this.#sites.get(site);
    if (policy === undefined) return dropped('malformed');
    if ('failed' in policy) return dropped('threw', policy.failed);
    clock.setNow(nowMs);
    let output: unknown;
    try {
      output = policy.buildHints(readContext(context) as never);
    } catch (error) {
      return dropped('threw', wireThrown(error));
    }
    // Judged here as well: what is read of an output may loop or be too large, and that must not happen on the router's thread.
    const limits = {
      room: MAX_HINT_ACTIONS,
      roomBytes: MAX_ENVELOPE_BYTES,
      declared: prepared.actions,
      accepted: context.capabilities,
    };
    const named: NamedActions = { names: [] };
    const verdict = judgeOutput(output, limits, named);
    if (typeof verdict === 'string') {
      const text = refusalText(verdict, named, limits);
      return dropped(verdict as Dropped['reason'], text === null ? null : { text, code: null, details: {} });
    }
    return { kind: 'output', call, output: verdict.map(({ bytes: _, ...action }) => action) };
  }

  async #dispose(site: number): Promise<void> {
    const policy = this.#sites.get(site);
    this.#sites.delete(site);
    if (policy === undefined || 'failed' in policy) return;
    try {
      await policy.dispose?.();
    } catch (error) {
      this.#ports.log.warn('dispose of a policy failed', { error: errorText(error) });
    }
  }
}

type Dropped = Extract<FromThread, { kind: 'dropped' }>;

/** A thrown value by value. Errors of the contract keep their code, so that a refusal stays one. */
export function wireThrown(error: unknown): WireThrown {
  const text = errorText(error).slice(0, MOST_TEXT);
  if (!(error instanceof PointsmanError)) return { text, code: null, details: {} };
  try {
    const details = Object.entries(error.details).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.slice(0, MOST_TEXT) : value,
    ]);
    return { text, code: String(error.code), details: Object.fromEntries(details) };
  } catch {
    // It carries the brand and is none all the same.
    return { text, code: null, details: {} };
  }
}
