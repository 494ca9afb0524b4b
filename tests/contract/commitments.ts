import { type ContractSection, fault, rule, test, types } from './rule.ts';

const COMMITS = 'src/host/committing-picks.test.ts';
const COMPONENTS = 'src/host/policy-components.ts';

/** Copies that selection counts on. */
export const COMMITMENT_RULES: ContractSection = {
  title: 'Worker selection: committed copies',
  rules: [
    rule(
      'commit-type',
      'A picker or cost that commits copies compiles only in a policy with the commitment `kv-copy`.',
      types('commitments > let a picker commit a copy, and only then'),
      fault(
        'src/plugin/worker-selection.ts',
        'WorkerSelectionPolicy<NoInfer<C>>;',
        'WorkerSelectionPolicy<Commitment>;',
      ),
    ),
    rule(
      'commit-cost',
      'A cost that credits copies without the commitment is refused at creation.',
      test(COMMITS, 'a cost that credits copies needs the commitment'),
      fault(
        'src/host/created-policy.ts',
        'if (!commits && declared.commits.length > 0) {',
        'if (declared.commits.length > 1) {',
      ),
    ),
    rule(
      'commit-when',
      '`commitsWhen(parameters)` may switch the commitment off for an instance.',
      test(
        'src/host/role-resolution.test.ts',
        'a refusal names file, line, column and what would be right > asks for no sender where kvcr commits nothing, and runs kv_fetch by default where it does',
      ),
      fault(
        'src/host/commitments.ts',
        'if (declared.commitsWhen === undefined) return true;',
        'return true;',
      ),
    ),
    rule(
      'commit-when-kept',
      'An instance that switched it off may not commit.',
      test(
        COMMITS,
        'a picker > may not commit to a row without a source, nor where the instance commits none',
      ),
      fault(COMPONENTS, 'if (!this.#parts.commits) {', 'if (!this.#parts) {'),
    ),
    rule(
      'commit-pick',
      'A picker with the commitment answers a row, or `{ row, commitKvCopy }`.',
      test(COMMITS, 'a picker > commits a copy to a row that has a source, or picks it plainly'),
      fault(COMPONENTS, 'this.commitKvCopy = commit;', ''),
    ),
    rule(
      'commit-pick-form',
      'Anything else is refused by its kind.',
      test(COMMITS, 'a picker > that answers a text for the commit is refused'),
      fault(COMPONENTS, "if (typeof commit !== 'boolean') {", "if (typeof commit === 'undefined') {"),
    ),
    rule(
      'commit-source-needed',
      'Committing to a row without a source, or one that takes no hints, is PM_COMMIT_WITHOUT_SOURCE.',
      test(
        COMMITS,
        'a picker > may not commit to a row without a source, nor where the instance commits none',
      ),
      fault(
        'src/host/compact-candidates.ts',
        'return hasCopies && copyableBlocks[from === null ? row : from[row]!]! >= 1;',
        'return hasCopies;',
      ),
    ),
    rule(
      'commit-source',
      'The host fixes the source: the best eligible one for that row, on another worker.',
      test(
        'src/host/copy-sources.test.ts',
        'finds for every candidate what a plain search over all others finds',
      ),
      fault(
        'src/host/source-choice.ts',
        'return this.first.workerId === workerId ? this.second : this.first;',
        'return this.first;',
      ),
    ),
    rule(
      'commit-record',
      'The commit stands in the decision record with source, prefix and the blocks that were credited.',
      test(
        'src/road/commits.test.ts',
        'a committed copy > names the best source, is sent first, and stands in the record with the blocks that were credited',
      ),
      fault('src/road/commits.ts', 'additional_blocks: additionalBlocks,', 'additional_blocks: 0,'),
    ),
  ],
};
