// The hint stage of a role in which policies run in threads of their own. Everything that rests on the match is read, and every call
// is made, in the booking's synchronous step; then the booking waits for the answers, which are entered in list order whatever the
// order they come in. A role without such policies has hint-stage.ts.
import type { RankCapabilities } from '../fleet/index.ts';
import { type CommittedKvCopy, errorText, type KvCopyLocations, MAX_HINT_ACTIONS } from '../plugin/index.ts';
import { BookingCopyLocations } from './copy-locations.ts';
import { type AnyHintContext, HintContexts } from './hint-context.ts';
import {
  failedCommit,
  HintComplaints,
  HintDraft,
  isFailure,
  notCapable,
  type Verdict,
  WHOLE_ROOM,
} from './hint-draft.ts';
import { type HintStagePorts, RoleHintStage, rankCapabilities } from './hint-stage.ts';
import { CopyLocationsSnapshot, snapshotCopyLocations } from './isolation/copy-snapshot.ts';
import type { ThreadAnswer } from './isolation/isolated-policy.ts';
import { writeContext } from './isolation/wire-context.ts';
import type { CreatedHint, InProcessHint, ThreadHint } from './role-creation.ts';
import type {
  CommitFailure,
  CommitOutcome,
  HintBooking,
  HintStageResult,
  PendingHints,
  ThreadedHintStage,
} from './types.ts';
import { explainThrown, HINT_MEMBERS } from './undeclared-input.ts';

/** The stage of one role in one partition. */
export class WaitingHintStage implements ThreadedHintStage {
  readonly #hints: readonly CreatedHint[];
  readonly #ports: HintStagePorts;
  readonly #complaints: HintComplaints;
  readonly #contexts = new HintContexts();

  constructor(hints: readonly CreatedHint[], ports: HintStagePorts) {
    this.#hints = hints;
    this.#ports = ports;
    this.#complaints = new HintComplaints(ports.log);
  }

  start(booking: HintBooking, hinted: (result: HintStageResult) => void): HintStageResult | PendingHints {
    const rank = rankCapabilities(this.#ports.fleet, booking);
    if (rank?.routerHint !== true) return notCapable(booking.commit ?? null);
    return new StageRun(this.#hints, this.#ports, this.#complaints, booking, rank, this.#contexts).start(
      hinted,
    );
  }
}

/** The stage that a role's policies need. */
export function hintStageOf(
  hints: readonly CreatedHint[],
  ports: HintStagePorts,
): RoleHintStage | WaitingHintStage {
  const here = hints.filter((hint) => hint.kind === 'in-process');
  return here.length === hints.length ? new RoleHintStage(here, ports) : new WaitingHintStage(hints, ports);
}

/** What became of one policy's call. */
type Outcome =
  | { readonly kind: 'skipped'; readonly reason: 'tripped' | 'restarting' }
  | { readonly kind: 'judged'; readonly verdict: Verdict; readonly micros: number };

const RESTARTING: Outcome = { kind: 'skipped', reason: 'restarting' };
const TRIPPED: Outcome = { kind: 'skipped', reason: 'tripped' };

/** One booking's way through the stage. */
class StageRun implements PendingHints {
  readonly pending = true;
  readonly #hints: readonly CreatedHint[];
  readonly #ports: HintStagePorts;
  readonly #complaints: HintComplaints;
  readonly #booking: HintBooking;
  readonly #rank: RankCapabilities;
  readonly #contexts: HintContexts;
  readonly #draft: HintDraft;
  readonly #outcomes = new Map<CreatedHint, Outcome>();
  /** Calls whose answers are not there yet. */
  #open = 0;
  /** Who sends the committed copy, and the copy; null when nobody does. */
  #sender: { readonly hint: CreatedHint; readonly copy: CommittedKvCopy } | null = null;
  #commit: CommitOutcome | null = null;
  /** Calls that wait for the sender's answer, as a failure would make them needless. */
  #held: (() => void)[] = [];
  /** Told of the end; null before anything waits, and after it was cancelled. */
  #hinted: ((result: HintStageResult) => void) | null = null;

  constructor(
    hints: readonly CreatedHint[],
    ports: HintStagePorts,
    complaints: HintComplaints,
    booking: HintBooking,
    rank: RankCapabilities,
    contexts: HintContexts,
  ) {
    this.#hints = hints;
    this.#ports = ports;
    this.#complaints = complaints;
    this.#booking = booking;
    this.#rank = rank;
    this.#contexts = contexts;
    this.#draft = new HintDraft(ports.metrics, complaints);
  }

  start(hinted: (result: HintStageResult) => void): HintStageResult | PendingHints {
    const locations = new BookingCopyLocations(this.#ports.fleet, this.#booking);
    this.#findSender(locations);
    if (this.#sender !== null) {
      const { hint, copy } = this.#sender;
      this.#begin(hint, this.#context(hint, locations, copy));
    }
    const { stopOnFailure = false } = this.#booking.commit ?? {};
    const others = this.#hints.filter((hint) => hint !== this.#sender?.hint);
    if (this.#open > 0 && stopOnFailure) this.#hold(others, locations);
    else if (!(stopOnFailure && this.#commitFailure() !== null)) {
      for (const hint of others) this.#begin(hint, this.#context(hint, locations, null));
    }
    locations.close();
    if (this.#open === 0) return this.#finish();
    this.#hinted = hinted;
    return this;
  }

  cancel(): void {
    this.#hinted = null;
    this.#held = [];
  }

  /** Takes the commit down: who sends it, or why nobody can. */
  #findSender(locations: BookingCopyLocations): void {
    const commit = this.#booking.commit ?? null;
    if (commit === null) return;
    const hint = this.#hints.find(({ sends }) => sends) ?? null;
    const copy = hint === null ? null : locations.committed(commit);
    if (hint !== null && copy !== null) this.#sender = { hint, copy };
    else this.#commit = failedCommit(commit, hint === null ? 'no_sender' : 'source_gone');
  }

  #context(
    hint: CreatedHint,
    locations: KvCopyLocations,
    committed: CommittedKvCopy | null,
  ): Readonly<AnyHintContext> {
    return this.#contexts.of(hint, this.#booking, this.#rank.actions, locations, committed);
  }

  /** Calls a policy, here or in its thread. */
  #begin(hint: CreatedHint, context: Readonly<AnyHintContext>): void {
    if (hint.kind === 'thread') this.#callThread(hint, context);
    else this.#outcomes.set(hint, this.#callHere(hint, context));
  }

  #callHere(hint: InProcessHint, context: Readonly<AnyHintContext>): Outcome {
    const { guard } = hint;
    if (guard?.admits() === false) return TRIPPED;
    const { clock } = this.#ports;
    const startedAt = clock.now();
    const guardStartedAt = guard?.begin() ?? 0;
    let verdict: Verdict;
    try {
      verdict = this.#judge(hint, hint.policy.buildHints(context as never));
    } catch (thrown) {
      verdict = 'threw';
      this.#complaints.complain(
        hint.name,
        verdict,
        errorText(explainThrown(thrown, hint.inputs, HINT_MEMBERS)),
      );
    }
    const micros = (clock.now() - startedAt) * 1000;
    guard?.end(guardStartedAt, isFailure(verdict, MAX_HINT_ACTIONS));
    return { kind: 'judged', verdict, micros };
  }

  #callThread(hint: ThreadHint, context: Readonly<AnyHintContext>): void {
    const { policy, guard } = hint;
    if (!policy.ready) {
      guard?.skip();
      this.#outcomes.set(hint, RESTARTING);
      return;
    }
    if (guard?.admits() === false) {
      this.#outcomes.set(hint, TRIPPED);
      return;
    }
    const { clock } = this.#ports;
    const startedAt = clock.now();
    this.#open += 1;
    // What is done here is the host's work: no time of it counts against the plugin.
    const isProbe = guard?.endLater(guard.begin()) ?? false;
    policy.call(writeContext(context), (answer) => {
      const micros = (clock.now() - startedAt) * 1000;
      this.#outcomes.set(hint, this.#outcomeOf(hint, answer, micros, isProbe));
      this.#open -= 1;
      this.#answered();
    });
  }

  /** Takes an answer to the guard as well, whether or not anybody still waits for it. */
  #outcomeOf(hint: ThreadHint, answer: ThreadAnswer, micros: number, isProbe: boolean): Outcome {
    const { guard } = hint;
    if (answer.kind === 'lost') {
      guard?.settledLater('none', isProbe);
      return RESTARTING;
    }
    let verdict: Verdict;
    if (answer.kind === 'output') verdict = this.#judge(hint, answer.output);
    else {
      verdict = answer.kind === 'dropped' ? answer.reason : answer.kind;
      const error = answer.kind === 'timed_out' ? null : answer.error;
      if (error !== null) this.#complaints.complain(hint.name, verdict, error);
    }
    // A call that only came behind too many others says nothing of the plugin.
    const isItsDoing = answer.kind !== 'timed_out' || answer.hangs;
    const judged = isFailure(verdict, MAX_HINT_ACTIONS) ? 'failed' : 'ok';
    guard?.settledLater(isItsDoing ? judged : 'none', isProbe);
    return { kind: 'judged', verdict, micros };
  }

  /** By the room of an empty envelope; what others took is looked at when it is entered. */
  #judge({ actions, name }: CreatedHint, output: unknown): Verdict {
    const limits = { ...WHOLE_ROOM, declared: actions, accepted: this.#rank.actions };
    return this.#complaints.judgeOutput(output, limits, name);
  }

  /** Keeps calls back until the sender answered; what they are told of the booking is read now. */
  #hold(hints: readonly CreatedHint[], locations: BookingCopyLocations): void {
    const readable = new CopyLocationsSnapshot(snapshotCopyLocations(locations));
    this.#held = hints.map((hint) => {
      const context = this.#context(hint, readable, null);
      return () => this.#begin(hint, context);
    });
  }

  #answered(): void {
    if (this.#hinted === null || this.#open > 0) return;
    const held = this.#held.splice(0);
    if (held.length > 0 && this.#commitFailure() === null) for (const begin of held) begin();
    if (this.#open > 0) return;
    const hinted = this.#hinted;
    this.#hinted = null;
    hinted(this.#finish());
  }

  /** Why the committed copy is not sent as far as is known now; null = it is, or there is none. */
  #commitFailure(): CommitFailure | null {
    if (this.#sender === null) return this.#commit?.failure ?? null;
    const outcome = this.#outcomes.get(this.#sender.hint);
    if (outcome === undefined) return null;
    if (outcome.kind === 'skipped') return outcome.reason;
    if (typeof outcome.verdict === 'string') return outcome.verdict;
    return outcome.verdict.length === 0 ? 'nothing' : null;
  }

  #finish(): HintStageResult {
    const { requestId, messageId = requestId, commit, incomingHint } = this.#booking;
    if (this.#sender !== null) {
      const { source, prefixBlocks, additionalBlocks } = this.#sender.copy;
      this.#commit = { source, prefixBlocks, additionalBlocks, failure: this.#commitFailure() };
      this.#enter(this.#sender.hint);
    }
    const givenUp = this.#commit !== null && this.#commit.failure !== null && commit?.stopOnFailure === true;
    if (givenUp) return this.#draft.result(null, this.#commit);
    const kept = incomingHint !== null && this.#draft.takeIncoming(incomingHint, this.#rank.actions);
    for (const hint of this.#hints) if (hint !== this.#sender?.hint) this.#enter(hint);
    return this.#draft.result(kept ? incomingHint.message_id : messageId, this.#commit);
  }

  #enter(hint: CreatedHint): void {
    const outcome = this.#outcomes.get(hint);
    if (outcome === undefined) return;
    if (outcome.kind === 'skipped') this.#draft.skip(hint.name, outcome.reason);
    else this.#draft.settle(hint.name, outcome.verdict, outcome.micros);
  }
}
