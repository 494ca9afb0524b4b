import { type ContractSection, fault, rule, test } from './rule.ts';

const LOCATIONS = 'src/host/copy-locations.test.ts';
const LOCATIONS_SOURCE = 'src/host/copy-locations.ts';
const CHOICE_SOURCE = 'src/host/source-choice.ts';
const PEERS_SOURCE = 'src/host/copy-peers.ts';
const STAGE_SOURCE = 'src/host/hint-stage.ts';
const source = (what: string) => test(LOCATIONS, `the best source > ${what}`);
const committed = (what: string) => test('src/road/commits.test.ts', `a committed copy > ${what}`);
const threaded = (what: string) =>
  test('src/road/threaded-hints.test.ts', `a committed copy whose sender has a thread > ${what}`);

/** Who else holds a prompt. */
export const COPY_RULES: ContractSection = {
  title: 'Hint policies: copy locations',
  rules: [
    rule(
      'copy-owners',
      '`owners` are all who may serve as a source, the longest prefix first, ties by worker id and rank.',
      source('equals what a plain search finds'),
      fault(LOCATIONS_SOURCE, 'sources.sort(compareByLength);', ''),
    ),
    rule(
      'copy-local',
      '`localPrefixBlocks` are the device and host blocks of the booked rank.',
      source(
        'counts device and host blocks of the booked rank as its own, and only device blocks of a source',
      ),
      fault(
        LOCATIONS_SOURCE,
        'depth(match, DEVICE, row) + depth(match, HOST, row);',
        'depth(match, DEVICE, row);',
      ),
    ),
    rule(
      'copy-minimum',
      '`bestSource(n)` adds n blocks at least, and one at least.',
      source('ends where the source’s hashes are unknown, and is dropped when too little is left'),
      fault(
        LOCATIONS_SOURCE,
        'this.localPrefixBlocks + leastBlocks(minAdditional);',
        'this.localPrefixBlocks + 1;',
      ),
    ),
    rule(
      'copy-minimum-number',
      '`bestSource(n)` refuses what is no number from 0 with PM_PLUGIN_INVALID; 0 asks for 1.',
      source('is refused a minimum that is no number from 0, as a misspelt parameter is'),
      fault('src/host/blocks-asked.ts', 'minAdditional >= 0', '!(minAdditional < 0)'),
    ),
    rule(
      'copy-unknown-hash',
      'A position whose engine hash is unknown ends the list of hashes.',
      source('ends where the source’s hashes are unknown, and is dropped when too little is left'),
      fault(LOCATIONS_SOURCE, 'known === prefix ? out : out.slice(0, known)', 'out'),
    ),
    rule(
      'copy-next',
      'A source whose hashes are unknown gives way to the next.',
      source('gives way to the next when its hashes are unknown or its match is not of this prompt'),
      fault(LOCATIONS_SOURCE, 'const MOST_TRIES = 8;', 'const MOST_TRIES = 1;'),
    ),
    rule(
      'copy-near-tied',
      'Of sources that lack at most a sixteenth of the longest prefix, the least loaded is best.',
      source(
        'among near-tied ones > is the least loaded within a sixteenth of the longest, equals the longest, then the smallest id',
      ),
      fault(CHOICE_SOURCE, 'if (a.load !== b.load) return a.load - b.load;', ''),
    ),
    rule(
      'copy-near-tied-share',
      'One that lacks more is not near.',
      source(
        'among near-tied ones > is the least loaded within a sixteenth of the longest, equals the longest, then the smallest id',
      ),
      fault(CHOICE_SOURCE, 'NEAR_TIE_SHARE = 16', 'NEAR_TIE_SHARE = 12'),
    ),
    rule(
      'copy-near-tied-next',
      'Where the hashes of none of them are known, the next shorter ones are asked.',
      source(
        'among near-tied ones > gives way to the next of them when its hashes are unknown, and then to the next shorter ones',
      ),
      fault(LOCATIONS_SOURCE, 'longest = this.#longest(needed, floor - 1);', 'longest = 0;'),
    ),
    rule(
      'copy-near-tied-columns',
      'Selection credits copies from the same sources.',
      test(
        'src/host/copy-sources.test.ts',
        'spreads copies of a popular prefix: the least loaded of those within a sixteenth of the longest',
      ),
      fault('src/host/copy-sources.ts', 'offered.load = this.#loadOf(offered.slot);', ''),
    ),
    rule(
      'copy-near-tied-committed',
      'A committed copy stays with the source that was credited, while that has it.',
      source(
        'among near-tied ones > leaves a committed copy with the source that selection chose, and moves on by the same rule',
      ),
      fault(
        LOCATIONS_SOURCE,
        'const row = match === null ? -1 : matchedRow(match, sourceSlot);',
        'const row = match === null ? -1 : matchedRow(match, -sourceSlot - 1);',
      ),
    ),
    rule(
      'copy-peers',
      'A source is of the same model, block size, hash scheme and worker type.',
      source('is never one that hashes otherwise'),
      fault(PEERS_SOURCE, 'a.hashScheme === b.hashScheme &&', ''),
    ),
    rule(
      'copy-reachable',
      'It is in reach: not suspect, not gone.',
      source('is never one that is suspect'),
      fault(PEERS_SOURCE, "state !== 'gone' && state !== 'suspect'", "state !== 'gone'"),
    ),
    rule(
      'copy-endpoint',
      'It names an endpoint.',
      test(
        'src/host/copy-sources.test.ts',
        'finds for every candidate what a plain search over all others finds',
      ),
      fault('src/host/copy-sources.ts', 'capabilities.ranks.get(rank)?.sourceControlEndpoint ? 1 : 0;', '1;'),
    ),
    rule(
      'copy-draining',
      'A draining worker still serves as a source.',
      source('may be draining: it still has what it has'),
      fault(PEERS_SOURCE, "state !== 'gone' && state !== 'suspect'", "state === 'ready'"),
    ),
    rule(
      'copy-during-call',
      'Copy locations may be read only while `buildHints` runs.',
      test(LOCATIONS, 'cannot be read after buildHints'),
      fault(LOCATIONS_SOURCE, 'this.#booking = null;', ''),
    ),
  ],
};

/** What becomes of committed copies. */
export const COMMIT_RULES: ContractSection = {
  title: 'Hint policies: committed copies',
  rules: [
    rule(
      'commit-first',
      'The actions of a committed copy’s sender come first, whatever its place in the list, and have their room before others run.',
      test(
        'src/host/committing-picks.test.ts',
        'a committed copy in the envelope > has its room and its place before whatever others or a trusted caller send',
      ),
      fault(
        STAGE_SOURCE,
        'sender = this.#hints.find((hint) => hint.sends) ?? null;',
        'sender = this.#hints.find((hint) => !hint.sends) ?? null;',
      ),
    ),
    rule(
      'commit-recheck',
      'The source is looked at again: one that cannot serve what was credited gives way to the next that can.',
      committed('moves to the next source that covers what was credited when the first cannot be named'),
      fault(LOCATIONS_SOURCE, 'return this.bestSource(additionalBlocks);', 'return null;'),
    ),
    rule(
      'commit-source-gone',
      'Without a source the commit fails.',
      committed(
        'is not made again after its source has gone: the booking degrades, and the sender runs without it',
      ),
      fault(
        STAGE_SOURCE,
        "if (copy === null) return failedCommit(commit, 'source_gone');",
        'if (copy === null) return { source: null, ...commit, failure: null };',
      ),
    ),
    rule(
      'commit-sent-nothing',
      'It fails when the sender returns nothing.',
      committed('that the sender fails to send (nothing) is dispatched without, by default'),
      fault(
        STAGE_SOURCE,
        "return typeof verdict === 'string' ? verdict : 'nothing';",
        "return typeof verdict === 'string' ? verdict : null;",
      ),
    ),
    rule(
      'commit-sender-throws',
      'It fails when the sender throws, or its output is dropped.',
      committed('that the sender fails to send (threw) is dispatched without, by default'),
      fault(
        STAGE_SOURCE,
        'if (taken) return null;',
        "if (taken || typeof verdict === 'string') return null;",
      ),
    ),
    rule(
      'commit-tripped',
      'While the sender is tripped, selection sees no copies; the decision after its pause does, and tries it.',
      test(
        'src/cli/skipped-sender.test.ts',
        'is counted on neither while it is skipped nor after a probe that failed, and again once it works',
      ),
      fault(
        'src/road/placement-request.ts',
        'copyCredit: copyCredit && lookup.runtime.commits?.senderIsSkipped() !== true,',
        'copyCredit,',
      ),
    ),
    rule(
      'commit-degrade',
      '`on_commit_failure` is `degrade` by default: the request goes out without the copy.',
      test('src/config/schema-selection.test.ts', 'a file of policy sections alone is valid'),
      fault(
        'src/config/schema-selection.ts',
        "or(word(['degrade', 'release']), 'degrade')",
        "or(word(['degrade', 'release']), 'release')",
      ),
    ),
    rule(
      'commit-release',
      '`release` frees the booking and selects once more.',
      committed(
        'that cannot be sent frees its booking once under release, and selection decides again without the credit',
      ),
      fault(
        'src/road/commits.ts',
        "stopOnFailure: setting?.onFailure === 'release'",
        'stopOnFailure: setting === null',
      ),
    ),
    rule(
      'commit-release-credit',
      'The second selection sees no copies.',
      committed(
        'that cannot be sent frees its booking once under release, and selection decides again without the credit',
      ),
      fault(
        'src/road/walk.ts',
        'placement = this.#place(request, classification, again, false);',
        'placement = this.#place(request, classification, again, true);',
      ),
    ),
    rule(
      'commit-release-abort',
      'A client that leaves meanwhile frees the booking once, and nothing is booked again.',
      committed('that fails while its client leaves frees the booking once, and nothing is booked again'),
      fault(
        'src/road/walk.ts',
        'exchange.giveUpBooking();\n    if (exchange.over) return;',
        'exchange.giveUpBooking();',
      ),
    ),
    rule(
      'commit-sum',
      'Every commit is counted once when made and once when settled: made = sent + degraded + released.',
      test('src/road/commit-counts.test.ts', 'made = sent + degraded + released, under release'),
      fault(
        'src/road/commits.ts',
        "failure === null ? 'sent' : commit",
        "failure === 'threw' ? 'sent' : commit",
      ),
    ),
    rule(
      'isolate-commit',
      'A committed copy whose sender has a thread is sent first, with the hashes of its source.',
      threaded('is sent first, with the hashes of its source'),
      fault(
        'src/host/waiting-hint-stage.ts',
        'if (hint !== null && copy !== null) this.#sender = { hint, copy };',
        'if (hint === undefined && copy !== null) this.#sender = { hint, copy };',
      ),
    ),
    rule(
      'isolate-commit-late',
      'A sender that is late has failed the commit.',
      threaded('is given up at the deadline: dispatched without it'),
      fault(
        'src/host/waiting-hint-stage.ts',
        "if (typeof outcome.verdict === 'string') return outcome.verdict;",
        "if (typeof outcome.verdict === 'string') return null;",
      ),
    ),
    rule(
      'isolate-commit-release',
      'Under `release` the request is then booked anew, without counting on copies.',
      threaded('or, as the role says, booked anew without counting on it'),
      fault(
        'src/road/walk.ts',
        'if (outcome === COMMIT_RELEASED && bookings === 1) this.#placeAgain(walk, null);',
        'if (outcome === undefined) this.#placeAgain(walk, null);',
      ),
    ),
    rule(
      'isolate-commit-ended',
      'A request that ends before is settled as well.',
      threaded('is settled when the request ends before (degrade)'),
      fault('src/road/walk.ts', 'this.#hinted(staged, endedEarly(commit));', ''),
    ),
  ],
};
