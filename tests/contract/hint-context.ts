import { type ContractSection, fault, rule, test, types } from './rule.ts';

const STAGE = 'src/host/hint-stage.test.ts';
const CONTEXT_SOURCE = 'src/host/hint-context.ts';
const ORDER = 'src/road/hint-order.test.ts';
const DOORS = 'tests/session-doors.test.ts';
const CONTEXT = test(
  STAGE,
  'the context > holds the base facts, frozen, and of the inputs only the declared ones',
);
const SESSION = test(ORDER, 'hint policies > are told the whole session of the request, or null');

/** What a hint policy is told. */
export const CONTEXT_RULES: ContractSection = {
  title: 'Hint policies: the context',
  rules: [
    rule(
      'hint-context-facts',
      'The context holds request id, booked worker and rank, role, partition, prompt tokens and block size.',
      CONTEXT,
      fault(CONTEXT_SOURCE, 'promptTokens: booking.promptTokens,', 'promptTokens: 0,'),
    ),
    rule(
      'hint-context-frozen',
      'It is frozen, so that no policy misleads the next.',
      CONTEXT,
      fault(CONTEXT_SOURCE, 'return Object.freeze(context);', 'return context;'),
    ),
    rule(
      'hint-context-session',
      '`session` is the session of the request with its id, parent, end, trigger, agent headers and compaction; null when there is none.',
      SESSION,
      fault(
        CONTEXT_SOURCE,
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
      'hint-context-session-namespace',
      'Its `namespace` is the same exactly for sessions of one tenant, or of one cache salt where no tenant is named, and tells neither.',
      test(
        'src/kv/lineage/session-key.test.ts',
        'a namespace is the same exactly for those of one tenant, or of one salt without one, and tells neither',
      ),
      fault(
        'src/kv/lineage/session-key.ts',
        'digest(tenant).slice(0, 32)',
        "digest(owner.cacheSalt ?? '').slice(0, 32)",
      ),
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
        'src/road/walk.ts',
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
        'src/road/agent-headers.test.ts',
        'captured agent headers > are those of agents, every value in its order and as it was sent',
      ),
      fault(
        'src/road/agent-headers.ts',
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
        'src/host/hint-output.ts',
        'if (accepted !== null && isOutside(actions, accepted)) return',
        'if (accepted === null || isOutside(actions, accepted)) return',
      ),
    ),
    rule(
      'hint-context-committed',
      'Only with the commitment `kv-copy` does it hold `committedKvCopy`, null for a booking without one.',
      CONTEXT,
      fault(
        CONTEXT_SOURCE,
        'if (seesCommits) context.committedKvCopy = committedKvCopy;',
        'context.committedKvCopy = committedKvCopy;',
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
