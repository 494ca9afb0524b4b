// Hint policies in their thread.
import { type AnyCreateContext, type AnyHintPolicy, MAX_HINT_ACTIONS } from '../../plugin/index.ts';
import type { PreparedHint } from '../catalog.ts';
import { checkHintPolicy } from '../created-policy.ts';
import { type DropReason, judgeOutput, type NamedActions, refusalText } from '../hint-output.ts';
import { MAX_ENVELOPE_BYTES } from '../hint-payload.ts';
import { keepAlone } from '../kept-hashes.ts';
import { explainThrown, HINT_MEMBERS } from '../undeclared-input.ts';
import type { FromThread, ToThread, WireThrown } from './messages.ts';
import { type CreateMessage, type GuestBase, type GuestKind, wireThrown } from './thread-guest.ts';
import { readContext } from './wire-context.ts';

type Call = Extract<ToThread, { kind: 'call' }>;
type Dropped = Extract<FromThread, { kind: 'dropped' }>;

/** The policies. */
export class HintGuest implements GuestKind {
  readonly #prepared: PreparedHint;
  readonly #send: (message: FromThread) => void;
  /** By site; what `create` threw where there is no policy. */
  readonly #sites = new Map<number, AnyHintPolicy | { readonly failed: WireThrown }>();

  constructor(prepared: PreparedHint, send: (message: FromThread) => void) {
    this.#prepared = prepared;
    this.#send = send;
  }

  create({ site, place }: CreateMessage, base: GuestBase): void {
    const { create, type } = this.#prepared;
    // A shared policy gets no partition, as its own type of `create` says.
    const created = create({ ...base, ...place } as AnyCreateContext);
    this.#sites.set(site, checkHintPolicy(created, `hint policy ${type}`));
  }

  failed(site: number, failed: WireThrown): void {
    this.#sites.set(site, { failed });
  }

  remove(site: number): (() => unknown) | null {
    const policy = this.#sites.get(site);
    this.#sites.delete(site);
    return policy === undefined || 'failed' in policy ? null : () => policy.dispose?.();
  }

  sites(): readonly number[] {
    return [...this.#sites.keys()];
  }

  take(message: ToThread): void {
    if (message.kind === 'call') this.#send(this.#call(message));
  }

  #call({ call, site, context }: Call): FromThread {
    const dropped = (reason: DropReason & Dropped['reason'], thrown: WireThrown | null = null) =>
      ({ kind: 'dropped', call, reason, thrown }) as const;
    const policy = this.#sites.get(site);
    if (policy === undefined) return dropped('malformed');
    if ('failed' in policy) return dropped('threw', policy.failed);
    let output: unknown;
    try {
      output = policy.buildHints(readContext(context) as never);
    } catch (error) {
      return dropped('threw', wireThrown(explainThrown(error, this.#prepared.inputs, HINT_MEMBERS)));
    }
    // Judged here as well: what is read of an output may loop or be too large, and that must not happen on the router's thread.
    const limits = {
      room: MAX_HINT_ACTIONS,
      roomBytes: MAX_ENVELOPE_BYTES,
      declared: this.#prepared.actions,
      accepted: context.capabilities,
    };
    const named: NamedActions = { names: [], fault: '' };
    const verdict = judgeOutput(output, limits, named, keepAlone);
    if (typeof verdict === 'string') {
      const text = refusalText(verdict, named, limits);
      return dropped(verdict as Dropped['reason'], { text, code: null, details: {} });
    }
    return { kind: 'output', call, output: verdict.map(({ bytes: _, ...action }) => action) };
  }
}
