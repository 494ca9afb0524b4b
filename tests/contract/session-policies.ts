import { type ContractSection, fault, rule, test } from './rule.ts';

const RETAIN = 'src/policies/kv-retain-session/policy.test.ts';
const RETAIN_SOURCE = 'src/policies/kv-retain-session/policy.ts';
const RELEASE = 'src/policies/kv-release-session/policy.test.ts';
const RELEASE_SOURCE = 'src/policies/kv-release-session/policy.ts';
const RELEASABLE = 'src/policies/kv-release-session/releasable.ts';

/** The built-in hint policies of sessions. */
export const SESSION_POLICY_RULES: ContractSection = {
  title: 'kv_retain_session and kv_release_session',
  rules: [
    rule(
      'retain-blocks',
      'By block hashes `kv_retain_session` names every block of the session on the booked worker once, none before its parent, exact to 64 bits.',
      test(
        RETAIN,
        'by block hashes > names every block of the session on the worker once, roots first, exact to 64 bits',
      ),
      fault(
        'src/policies/kv-retain-session/chain-cut.ts',
        'const all = lineage.uniqueBlocks(sessionId, worker);',
        'const all = BigUint64Array.from(lineage.paths(sessionId, worker).flatMap((path) => [...path]));',
      ),
    ),
    rule(
      'retain-cut',
      '`max_blocks` cuts the end of each chain, so that what is kept can be used.',
      test(RETAIN, 'by block hashes > cuts the end of each chain at max_blocks 4'),
      fault(
        'src/policies/kv-retain-session/chain-cut.ts',
        'if (paths.length === 1) return',
        'if (paths.length >= 1) return',
      ),
    ),
    rule(
      'retain-priority',
      'Its priority falls along a chain, and never rises.',
      test(RETAIN, 'by block hashes > lets the priority fall along a chain, never rise'),
      fault(
        RETAIN_SOURCE,
        'Math.min(given.priority, given.last_priority ?? given.priority)',
        'given.last_priority ?? given.priority',
      ),
    ),
    rule(
      'retain-form',
      'It sends token ranges where the worker advertises them, else block hashes where those.',
      test(RETAIN, 'by token ranges > names the request itself where the engine takes that'),
      fault(
        RETAIN_SOURCE,
        "given.form === 'block_hashes' ? [BLOCK_HASHES] : [TOKEN_RANGE]",
        "given.form !== 'token_range' ? [BLOCK_HASHES] : [TOKEN_RANGE]",
      ),
    ),
    rule(
      'retain-capability',
      'To a worker that does not say what it takes neither of them sends anything.',
      test(RETAIN, 'by block hashes > sends nothing to an engine that does not say what it takes'),
      fault(RETAIN_SOURCE, 'capabilities?.has(name)) ?? null', 'capabilities?.has(name) ?? true) ?? null'),
    ),
    rule(
      'retain-final',
      'With the final request nothing is retained.',
      test(RETAIN, 'by block hashes > sends nothing with the final request'),
      fault(RETAIN_SOURCE, 'ttlMs === null || session.sessionFinal === true ||', 'ttlMs === null ||'),
    ),
    rule(
      'retain-learned',
      'A learned time follows the gaps between turns of the same kind.',
      test(RETAIN, 'the time > is learned from the gaps between turns of the same kind'),
      fault('src/policies/kv-retain-session/ttl.ts', 'model.learn(before.kind,', "model.learn('other root',"),
    ),
    rule(
      'retain-namespace',
      'What it remembers of a session it keeps by namespace: equal ids of two tenants are two sessions.',
      test(RETAIN, 'keeps equal ids of two namespaces apart'),
      fault('src/policies/session-name.ts', 'return `${namespace} ${sessionId}`;', 'return sessionId;'),
    ),
    rule(
      'release-namespace',
      'So does `kv_release_session`, whose relatives are of one namespace.',
      test(RELEASE, 'keeps equal ids of two namespaces apart'),
      fault(
        'src/policies/session-name.ts',
        'within(namespace, parentSessionId)',
        "within('', parentSessionId)",
      ),
    ),
    rule(
      'release-exclusive',
      '`kv_release_session` gives up only blocks that no other live session on the worker has.',
      test(
        RELEASE,
        'the final request > gives up what no other session has, and what it computes itself beyond what it found',
      ),
      fault(
        RELEASABLE,
        'lineage.exclusiveBlocks(member.sessionId, worker)',
        'lineage.uniqueBlocks(member.sessionId, worker)',
      ),
    ),
    rule(
      'release-found',
      'What was on the device when a session with a parent came is left.',
      test(
        RELEASE,
        'a child that ends > leaves what was there when it came, and the block in which the answer before it ends',
      ),
      fault(
        RELEASABLE,
        'let first = member.hasParent ?',
        'let first = member.hasParent && member.isOrphan ?',
      ),
    ),
    rule(
      'release-unseen',
      'So is what a relative may share whose blocks the lineage does not show in full.',
      test(
        RELEASE,
        'a child that ends > leaves what it may share with a parent whose blocks were evicted and that it computed again',
      ),
      fault(RELEASABLE, 'if (!seen) first = shared;', 'if (!seen) first += 0;'),
    ),
    rule(
      'release-compaction',
      'With the first turn after a compaction it gives up the abandoned branch, less what the new conversation begins with.',
      test(RELEASE, 'a compaction > gives up the old branch with the next turn, less what that begins with'),
      fault(
        RELEASE_SOURCE,
        'const first = Math.max(firstOwnPosition(release), cache.deviceBlocks);',
        'const first = Math.max(firstOwnPosition(release), 0 * cache.deviceBlocks);',
      ),
    ),
  ],
};
