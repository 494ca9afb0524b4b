import { type ContractSection, fault, rule, test } from './rule.ts';

const STAGE = 'src/host/hint-stage.test.ts';
const STAGE_SOURCE = 'src/host/hint-stage.ts';
const DRAFT_SOURCE = 'src/host/hint-draft.ts';
const OUTPUT_SOURCE = 'src/host/hint-output.ts';
const PAYLOAD_SOURCE = 'src/host/hint-payload.ts';
const ORDER = 'src/road/hint-order.test.ts';
const ENVELOPE = test(STAGE, 'the envelope > carries numbered actions in list order under the request’s id');
const misbehaving = (how: string) =>
  test(STAGE, `a policy that misbehaves loses its own actions only > ${how}`);
const whole = (what: string) => test(STAGE, `the envelope > takes policies whole or not at all: ${what}`);

/** The host's rules. */
export const STAGE_RULES: ContractSection = {
  title: 'Hint policies: when they run and what is sent',
  intro:
    'What becomes of hints at every door and in every router mode is told by `hint-capable-rank`, `hint-capable-partition`, `hint-session-gateway` and `hint-session-replay` here, and by `start-hints-off-kv-path-live` and the `config-mode-…` rules below.',
  rules: [
    rule(
      'hint-once',
      'A policy is called once per booking, when the load is booked and before the request is sent.',
      test(
        ORDER,
        'hint policies > run once per booking, when its load is booked and before anyone hears of it',
      ),
      fault(
        'src/road/hint-stages.ts',
        'return stage?.run(booking) ?? null;',
        'stage?.run(booking);\n    return stage?.run(booking) ?? null;',
      ),
    ),
    rule(
      'hint-booking-only',
      'It is not called for a request that is not booked.',
      test(ORDER, 'hint policies > do not run for a request that is not booked'),
      fault('src/road/admission.ts', 'if (underWay < limit) return null;', 'if (underWay >= 0) return null;'),
    ),
    rule(
      'hint-kv-path',
      'Off the KV path no policy runs.',
      test(
        'src/host/plugin-host.test.ts',
        'what a role gets > is the policy of router mode round-robin, without hints',
      ),
      fault(
        'src/host/resolved-host.ts',
        "const onKvPath = this.#config.router.mode === 'kv';",
        'const onKvPath = true;',
      ),
    ),
    rule(
      'hint-capable-rank',
      'Only for a rank that advertises `router_hint` does a policy run: other workers get no hint, and no policy runs for them.',
      test(STAGE, 'the capability gate > runs no policy for a rank that takes no hints, or is not known'),
      fault(
        STAGE_SOURCE,
        'if (rank?.routerHint !== true) return notCapable(commit);',
        'if (rank === null) return notCapable(commit);',
      ),
    ),
    rule(
      'hint-capable-rank-live',
      'In the running program, too, an engine that takes no hints is sent none, and no policy runs for it.',
      {
        file: 'tests/hint-policies.test.ts',
        name: 'a hint policy in a bare folder > runs for no request to an engine that takes no hints',
        by: 'process',
      },
      fault(
        STAGE_SOURCE,
        'return fleet.workerOfSlot(booking.slot)?.capabilities?.ranks.get(booking.rank) ?? null;',
        'const known = fleet.workerOfSlot(booking.slot)?.capabilities?.ranks.get(booking.rank);\n  return { actions: null, sourceControlEndpoint: null, ...known, routerHint: true };',
      ),
    ),
    rule(
      'hint-capable-partition',
      'In a partition without such a rank the stage is skipped, and no chain of hashes is made or kept for it.',
      test(ORDER, 'a partition with no router_hint worker > skips the stage and retains no chain'),
      fault('src/road/prompt-lookup.ts', 'runtime.matchForHintsAlone === true &&', 'false &&'),
    ),
    rule(
      'hint-list-order',
      'Policies run in list order.',
      ENVELOPE,
      fault(
        STAGE_SOURCE,
        'for (const hint of this.#hints) if (hint !== sender)',
        'for (const hint of [...this.#hints].reverse()) if (hint !== sender)',
      ),
    ),
    rule(
      'hint-default-order',
      'Those that run by default run in the order of their registration, built-in ones first.',
      test(
        'src/host/plugin-host.test.ts',
        'what a role gets > includes hints by default host, in registration order, when it lists none',
      ),
      fault(
        'src/host/hint-resolution.ts',
        'for (const entry of this.#catalog.hints.values()) {',
        'for (const entry of [...this.#catalog.hints.values()].reverse()) {',
      ),
    ),
    rule(
      'hint-whole',
      'An output is taken whole or dropped whole.',
      whole('20 + 20: the second is dropped'),
      fault(
        OUTPUT_SOURCE,
        'const length = output.length;',
        'const length = Math.min(output.length, limits.room);',
      ),
    ),
    rule(
      'hint-later-run',
      'When one is dropped, later policies still run.',
      whole('20 + 13 + 12: the second is dropped, the third kept'),
      fault(
        DRAFT_SOURCE,
        'const room = MAX_HINT_ACTIONS - this.#taken;',
        "const dropped = this.#policies?.some(({ result }) => result === 'dropped');\n    const room = dropped ? 0 : MAX_HINT_ACTIONS - this.#taken;",
      ),
    ),
    rule(
      'hint-most-actions',
      'An envelope holds 32 actions at most; an output that exceeds the room left is dropped.',
      whole('33 do not'),
      fault('src/plugin/kv-hint.ts', 'MAX_HINT_ACTIONS = 32', 'MAX_HINT_ACTIONS = 33'),
    ),
    rule(
      'hint-most-bytes',
      'It holds 4 MiB of payloads at most.',
      test(
        STAGE,
        'the envelope > holds at most 4 MiB of payloads: who comes too late with too much is dropped, who fits is not',
      ),
      fault(PAYLOAD_SOURCE, '4 * MAX_PAYLOAD_BYTES', '8 * MAX_PAYLOAD_BYTES'),
    ),
    rule(
      'hint-throws',
      'A policy that throws loses its own actions.',
      misbehaving('when it throws'),
      fault(STAGE_SOURCE, "verdict = 'threw';", 'throw thrown;'),
    ),
    rule(
      'hint-undeclared',
      'An output with an action outside the declared `actions` is dropped.',
      test(
        STAGE,
        'the capability gate > drops an output with any action the rank does not accept, or the policy did not declare',
      ),
      fault(
        OUTPUT_SOURCE,
        "if (declared !== null && isOutside(actions, declared)) return 'undeclared_action';",
        '',
      ),
    ),
    rule(
      'hint-unsupported',
      'So is one with an action that the rank does not accept.',
      test(
        STAGE,
        'the capability gate > drops an output with any action the rank does not accept, or the policy did not declare',
      ),
      fault(
        OUTPUT_SOURCE,
        "if (accepted !== null && isOutside(actions, accepted)) return 'unsupported_action';",
        '',
      ),
    ),
    rule(
      'hint-dropped-counted',
      'What is dropped is counted by policy and reason.',
      misbehaving('is counted by reason every time and logged once'),
      fault(
        DRAFT_SOURCE,
        "this.#metrics.count('pointsman_hint_outputs_dropped_total', { policy: name, reason: verdict });",
        '',
      ),
    ),
    rule(
      'hint-ids',
      'Actions are numbered `a1`, `a2`, … over the envelope, in order and without gaps.',
      ENVELOPE,
      fault(DRAFT_SOURCE, '(_, at) => `a${at + 1}`', '(_, at) => `a${at}`'),
    ),
    rule(
      'hint-none',
      'Without actions there is no envelope.',
      test(STAGE, 'the envelope > does not exist without actions'),
      fault(DRAFT_SOURCE, 'messageId === null || actions === null', 'messageId === null'),
    ),
    rule(
      'hint-envelope',
      'An envelope has protocol version 0.1 and the id of the request as its message id; that of a later booking has ID/2, ID/3 and so on, and that of a prefill leg ID/prefill.',
      ENVELOPE,
      fault(DRAFT_SOURCE, "protocol_version: '0.1',", "protocol_version: '0.2',"),
    ),
    rule(
      'hint-two-fetches',
      'Two listed policies that may send `kv.fetch` give a warning at the start, as engines read only the first.',
      test(
        'src/host/plugin-host.test.ts',
        'what a role gets > is what it names: default, an instance, or a type, with the hints it lists',
      ),
      fault(
        'src/host/hint-resolution.ts',
        'if (fetchers.length < 2) return;',
        'if (fetchers.length < 3) return;',
      ),
    ),
    rule(
      'hint-dispatched',
      'The envelope goes out with the request that was booked, on the worker that was booked.',
      test(
        'src/road/hints.test.ts',
        'hints on the road > go out with the request, and raise what is expected to be cached',
      ),
      fault(
        'src/road/walk.ts',
        'engineRequest(request, worker, rank, hint, asksIds)',
        'engineRequest(request, worker, rank, null, asksIds)',
      ),
    ),
    rule(
      'hint-replay',
      'Replay in virtual time runs hint policies, and the simulated engine does what they ask.',
      test(
        'tests/replay-cli.test.ts',
        'pointsman replay > fetches from peers under a policy file with kv_fetch, and counts it',
      ),
      fault('src/cli/replay-router.ts', 'router_hint: true,', 'router_hint: false,'),
    ),
  ],
};
