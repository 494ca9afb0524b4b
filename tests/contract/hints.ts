import { type ContractSection, fault, rule, test, types } from './rule.ts';

const STAGE = 'src/host/hint-stage.test.ts';
const STAGE_SOURCE = 'src/host/hint-stage.ts';
const OUTPUT_SOURCE = 'src/host/hint-output.ts';
const PAYLOAD_SOURCE = 'src/host/hint-payload.ts';
const ORDER = 'src/road/hint-order.test.ts';
const DOORS = 'tests/session-doors.test.ts';
const CONTEXT = test(
  STAGE,
  'the context > holds the base facts, frozen, and of the inputs only the declared ones',
);
const ENVELOPE = test(STAGE, 'the envelope > carries numbered actions in list order under the request’s id');
const SESSION = test(ORDER, 'hint policies > are told the whole session of the request, or null');
const misbehaving = (how: string) =>
  test(STAGE, `a policy that misbehaves loses its own actions only > ${how}`);
const whole = (what: string) => test(STAGE, `the envelope > takes policies whole or not at all: ${what}`);

/** What a hint policy is told. */
export const CONTEXT_RULES: ContractSection = {
  title: 'Hint policies: the context',
  intro:
    'The lineage of sessions, and with it the hint policies `kv_retain_session` and `kv_release_session`, are no part of this version.',
  rules: [
    rule(
      'hint-context-facts',
      'The context holds request id, booked worker and rank, role, partition, prompt tokens and block size.',
      CONTEXT,
      fault('src/host/hint-context.ts', 'promptTokens: booking.promptTokens,', 'promptTokens: 0,'),
    ),
    rule(
      'hint-context-frozen',
      'It is frozen, so that no policy misleads the next.',
      CONTEXT,
      fault('src/host/hint-context.ts', 'return Object.freeze({\n    ...base,', 'return ({\n    ...base,'),
    ),
    rule(
      'hint-context-session',
      '`session` is the session of the request with its id, parent, end, trigger, agent headers and compaction; null when there is none.',
      SESSION,
      fault(
        'src/host/hint-context.ts',
        'session: frozenSession(booking.session),',
        "session: frozenSession(booking.session ?? { sessionId: '', agentHeaders: {} }),",
      ),
    ),
    rule(
      'hint-context-session-frozen',
      'It is frozen with its headers.',
      SESSION,
      fault('src/host/frozen-session.ts', 'Object.freeze(session.agentHeaders);', ''),
    ),
    rule(
      'hint-session-gateway',
      'It reaches the policy through chat and completions of the gateway.',
      {
        file: DOORS,
        name: 'the session of a request reaches buildHints through chat and completions of the gateway',
        by: 'process',
      },
      fault(
        'src/road/road.ts',
        '      session: request.session,\n      hashes,',
        '      session: null,\n      hashes,',
      ),
    ),
    rule(
      'hint-session-headers',
      'The gateway reads it from the canonical headers, trimmed.',
      test(
        'src/gateway/callers.test.ts',
        'readSession > reads the canonical headers, trimmed, and freezes the result',
      ),
      fault('src/gateway/session-headers.ts', "'x-dynamo-parent-session-id'", "'x-dynamo-parent'"),
    ),
    rule(
      'hint-session-agent-headers',
      'With it go the headers that coding agents send about themselves, each value as it was sent; no header that could hold a credential is among them.',
      test(
        'src/gateway/agent-headers.test.ts',
        'captured agent headers > are those of agents, every value in its order and as it was sent',
      ),
      fault(
        'src/gateway/agent-headers.ts',
        'if (!NAMES.has(name) && !PREFIXES.some((prefix) => name.startsWith(prefix))) continue;',
        '',
      ),
    ),
    rule(
      'hint-session-replay',
      'Under replay it is the one that the line of the trace names.',
      test(DOORS, 'the session of a trace line reaches buildHints through replay'),
      fault('src/replay/replay-door.ts', 'session: trace.sessions.get(request) ?? null,', 'session: null,'),
    ),
    rule(
      'hint-context-capabilities',
      '`capabilities` is the set of `type@version` that the rank accepts; null when it accepts hints and names none, and then every action is sent.',
      test(STAGE, 'the capability gate > sends everything to a rank that advertises no list'),
      fault(
        OUTPUT_SOURCE,
        'limits.accepted?.has(name) === false)) return',
        'limits.accepted?.has(name) !== true)) return',
      ),
    ),
    rule(
      'hint-context-committed',
      'Only with the commitment `kv-copy` does it hold `committedKvCopy`, null for a booking without one.',
      CONTEXT,
      fault(
        'src/host/hint-context.ts',
        '...(seesCommits ? { committedKvCopy } : {}),',
        '...{ committedKvCopy },',
      ),
    ),
    rule(
      'hint-context-committed-type',
      'The type of the context says the same.',
      types('commitments > give a hint policy the committed copy, and only then'),
      fault(
        'src/plugin/hint-policy.ts',
        '([C] extends [never] ? unknown : CommittedHintContext);',
        'CommittedHintContext;',
      ),
    ),
  ],
};

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
        'src/road/road.ts',
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
        'src/host/plugin-host.ts',
        "const onKvPath = this.#config.router.mode === 'kv';",
        'const onKvPath = true;',
      ),
    ),
    rule(
      'hint-capable-rank',
      'Only for a rank that advertises `router_hint` does a policy run: other workers get no hint, and no policy runs for them.',
      test(STAGE, 'the capability gate > runs no policy for a rank that takes no hints, or is not known'),
      fault(STAGE_SOURCE, 'if (rank?.routerHint !== true) {', 'if (rank === null) {'),
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
        'return worker?.capabilities?.ranks.get(booking.rank) ?? null;',
        'return { routerHint: true, actions: null, sourceControlEndpoint: worker === null ? null : null };',
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
        STAGE_SOURCE,
        'const room = roomIn(draft);',
        "const room = draft.policies.some(({ result }) => result === 'dropped') ? { room: 0, roomBytes: 0 } : roomIn(draft);",
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
        "if (names.some((name) => limits.declared?.has(name) === false)) return 'undeclared_action';",
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
        "if (names.some((name) => limits.accepted?.has(name) === false)) return 'unsupported_action';",
        '',
      ),
    ),
    rule(
      'hint-dropped-counted',
      'What is dropped is counted by policy and reason.',
      misbehaving('is counted by reason every time and logged once'),
      fault(
        STAGE_SOURCE,
        "metrics.count('pointsman_hint_outputs_dropped_total', { policy: name, reason: verdict });",
        '',
      ),
    ),
    rule(
      'hint-ids',
      'Actions are numbered `a1`, `a2`, … over the envelope, in order and without gaps.',
      ENVELOPE,
      fault(STAGE_SOURCE, '`a${draft.actions.length + 1}`', '`a${draft.actions.length}`'),
    ),
    rule(
      'hint-none',
      'Without actions there is no envelope.',
      test(STAGE, 'the envelope > does not exist without actions'),
      fault(STAGE_SOURCE, 'draft.actions.length > 0 && !givenUp', '!givenUp'),
    ),
    rule(
      'hint-envelope',
      'An envelope has protocol version 0.1 and the id of the request as its message id.',
      ENVELOPE,
      fault(STAGE_SOURCE, "protocol_version: '0.1',", "protocol_version: '0.2',"),
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
        'src/road/road.ts',
        'engineRequest(request, worker, rank, hint)',
        'engineRequest(request, worker, rank, null)',
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
