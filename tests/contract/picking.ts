import { type ContractSection, fault, rule, test } from './rule.ts';

const PIPELINE = 'src/host/selection-pipeline.test.ts';
const PINS = 'src/host/selection-pins.test.ts';
const AFFINITY = 'src/road/affinity.test.ts';
const SCHEDULER = 'src/scheduling/scheduler.test.ts';
const COMPONENTS = 'src/host/policy-components.ts';
const PIPELINE_SOURCE = 'src/host/selection-pipeline.ts';
const ELIGIBLE = test(
  SCHEDULER,
  'placing a request > turns away whoever may not take the request, and says why',
);

/** What the host holds a worker-selection policy to. */
export const PICKING_RULES: ContractSection = {
  title: 'Worker selection: what the host sees to',
  rules: [
    rule(
      'pick-filter-order',
      'Filters run in list order.',
      test(PIPELINE, 'filters > keep what all keep; the first to drop a candidate is the one on record'),
      fault(
        COMPONENTS,
        'for (let at = 0; at < filters.length; at += 1) {',
        'for (let at = filters.length - 1; at >= 0; at -= 1) {',
      ),
    ),
    rule(
      'pick-filter-first',
      'The first filter that drops a candidate ends its turn.',
      test(PIPELINE, 'filters > stop at the first that drops a candidate'),
      fault(
        COMPONENTS,
        'if (keeps === false) return name;',
        'if (keeps === false) {\n        for (const later of filters.slice(at + 1)) later.keep(this.#filterViews[at] as never, row, request);\n        return name;\n      }',
      ),
    ),
    rule(
      'pick-filter-answer',
      'A filter answers true or false; anything else, a promise included, breaks the contract.',
      test(PIPELINE, 'filters > must answer true or false'),
      fault(COMPONENTS, 'if (keeps !== true) {', 'if (keeps == null) {'),
    ),
    rule(
      'pick-nobody-left',
      'When the filters leave nobody, the request fails with PM_SELECTION_ALL_FILTERED.',
      test(PIPELINE, 'filters > that leave nobody fail the request'),
      fault(PIPELINE_SOURCE, 'if (kept === 0) throw allFiltered(this.#site, compact.count);', ''),
    ),
    rule(
      'pick-nobody-eligible',
      'Where nobody is eligible no policy runs: the request fails with PM_SELECTION_NO_ENDPOINTS.',
      test(PIPELINE, 'nobody eligible is an error before any policy runs'),
      fault(PIPELINE_SOURCE, "if (count === 0) throw noEndpoints(this.#site, 'none is eligible');", ''),
    ),
    rule(
      'pick-scorers-summed',
      'Each scorer runs once over all survivors, and costs are summed.',
      test(PIPELINE, 'scorers > are each called once with all survivors and summed'),
      fault(
        'src/host/cost-sums.ts',
        'const total = 0 + first[at]! + second[at]! + third[at]!;',
        'const total = 0 + third[at]!;',
      ),
    ),
    rule(
      'pick-scorer-slots',
      'The slots a scorer fills start as NaN, so that one left out shows.',
      test(PIPELINE, 'scorers > are each called once with all survivors and summed'),
      fault('src/host/policy-components.ts', 'slots[at]!.set(this.#unwritten);', 'slots[at]!.fill(0);'),
    ),
    rule(
      'pick-scorer-length',
      'They are exactly as many as there are candidates.',
      test(PIPELINE, 'scorers > are each called once with all survivors and summed'),
      fault(
        'src/host/policy-components.ts',
        'this.#room.subarray((at + 1) * room, (at + 1) * room + count)',
        'this.#room.subarray((at + 1) * room, (at + 2) * room)',
      ),
    ),
    rule(
      'pick-scorer-finite',
      'A cost that is missing or not finite is PM_SELECTION_NON_FINITE_COST and names scorer and row.',
      test(PIPELINE, 'scorers > fail the request when one writes infinity'),
      fault(
        'src/host/cost-sums.ts',
        'return Number.isFinite(all) || allFinite(totals, count);',
        'return true;',
      ),
    ),
    rule(
      'pick-sum-finite',
      'So is a sum that is not finite although its parts are.',
      test(PIPELINE, 'scorers > fail the request when finite costs sum to infinity'),
      fault(
        'src/host/policy-components.ts',
        'if (!Number.isFinite(sums[row])) {',
        'if (!Number.isFinite(slots[row])) {',
      ),
    ),
    rule(
      'pick-scorer-synchronous',
      'A scorer is synchronous and returns nothing.',
      test(PIPELINE, 'scorers > must not be asynchronous'),
      fault(COMPONENTS, 'if (result !== undefined) {', 'if (result === null) {'),
    ),
    rule(
      'pick-range',
      'The picker answers a row among those left; anything else is PM_SELECTION_INVALID_PICK.',
      test(PIPELINE, 'the picker > is refused when it answers 2'),
      fault(COMPONENTS, 'row >= 0 && row < count) {', 'row >= 0) {'),
    ),
    rule(
      'pick-free',
      'The picker need not follow the costs.',
      test(PIPELINE, 'the picker > may take any row, whatever it costs'),
      fault(
        PIPELINE_SOURCE,
        'const row = this.#components.pick(request, totals);',
        'const row = firstLowest(totals, compact.count).row;',
      ),
    ),
    rule(
      'pick-throws',
      'What a callback throws is PM_PLUGIN_THREW with the component named and the thrown value as its cause.',
      test(PIPELINE, 'a policy that throws > in the picker is named, and what it threw stays the cause'),
      fault(
        'src/host/selection-errors.ts',
        '{ cause: thrown, details: { ...site, component } },',
        '{ details: { ...site, component } },',
      ),
    ),
    rule(
      'pick-default-instead',
      'A policy that breaks its contract loses that decision to the default cost, and the request goes on.',
      test(SCHEDULER, 'placing a request > falls back on the default cost when the policy throws'),
      fault(
        'src/scheduling/policy-choice.ts',
        'if (thrown instanceof PointsmanError && isRefusal(thrown.code)) throw thrown;',
        'throw thrown;',
      ),
    ),
    rule(
      'pick-refusal',
      'That nobody is left is an answer and not a breach: the default cost does not overrule it.',
      test('src/road/road.test.ts', 'the road > passes a refusal of the policy on instead of overruling it'),
      fault(
        'src/scheduling/policy-choice.ts',
        'if (thrown instanceof PointsmanError && isRefusal(thrown.code)) throw thrown;',
        '',
      ),
    ),
    rule(
      'pick-candidate-order',
      'Candidates stand in (worker id, rank) order, whatever the order in which they joined.',
      test(
        'src/fleet/fleet.test.ts',
        'the fleet > lists the candidates of a partition in (worker id, rank) order, ids exact, whatever the order of joining',
      ),
      fault(
        'src/fleet/partition-candidates.ts',
        '(a.spec.id < b.spec.id ? -1 : 1)',
        '(a.spec.id < b.spec.id ? 1 : -1)',
      ),
    ),
    rule(
      'pick-ties',
      'Ties go uniformly at random by the injected generator.',
      test(
        'src/host/row-choice.test.ts',
        'choosing the lowest cost > spreads ties uniformly: chi-square over 5 equal rows stays below the 0.1 % bound',
      ),
      fault('src/host/row-choice.ts', 'if (rng.integer(ties) === 0) row = at;', 'row = at;'),
    ),
    rule(
      'pick-ties-picker',
      'So they do with `pickLowestCost`.',
      test('src/policies/least-loaded/policy.test.ts', 'reaches every one of several equals'),
      fault('src/plugin/worker-components.ts', 'if (rng.integer(ties) === 0) best = row;', ''),
    ),
    rule(
      'pick-sampling',
      'A temperature samples by softmax over costs normalised to their range.',
      test(
        'src/host/row-choice.test.ts',
        'sampling by temperature > gives the published probabilities for costs 10, 20, 40 at 0.7',
      ),
      fault('src/host/row-choice.ts', '* temperature, LEAST_SPAN', '/ temperature, LEAST_SPAN'),
    ),
    rule(
      'pick-replay',
      'The same candidates and draws give the same choices.',
      test('src/cli/compose-router.test.ts', 'a composed router > makes the same choices for the same seed'),
      fault(
        'src/plugin/rng.ts',
        'for (let warmUp = 0; warmUp < 15; warmUp += 1) step();',
        "const made = Number(Reflect.get(globalThis, 'made') ?? 0);\n  Reflect.set(globalThis, 'made', made + 1);\n  for (let warmUp = 0; warmUp < 15 + made; warmUp += 1) step();",
      ),
    ),
    rule(
      'pick-pin',
      'A pin decides without the picker.',
      test(PINS, 'pins > decide without the picker'),
      fault(
        PIPELINE_SOURCE,
        '    if (pin !== null) {',
        '    if (pin === facts.affinityTarget && pin !== null) {',
      ),
    ),
    rule(
      'pick-pin-eligible',
      'A pin to a worker that is not eligible fails the request; no policy can widen it.',
      test(PINS, 'pins > to a worker that is not eligible fail'),
      fault(
        PIPELINE_SOURCE,
        'if (isTarget(table, row, pin)) origin[count++] = row;',
        'origin[count++] = row;',
      ),
    ),
    rule(
      'pick-allow-list',
      'Workers outside an allow-list are no candidates.',
      ELIGIBLE,
      fault(
        'src/scheduling/eligibility.ts',
        'if (rules.allowed !== null && !rules.allowed.has(id)) return REASON.not_allowed;',
        '',
      ),
    ),
    rule(
      'pick-required-taints',
      'Nor are those without a required taint.',
      ELIGIBLE,
      fault(
        'src/scheduling/eligibility.ts',
        'for (const taint of rules.requiredTaints) if (!taints.includes(taint)) return REASON.missing_taint;',
        '',
      ),
    ),
    rule(
      'pick-exclusive-affinity',
      'The affinity target is advice, unless a policy has `exclusiveAffinity`.',
      test(PINS, 'an affinity target > is advice to any other policy'),
      fault('src/host/selection-pipeline.ts', 'if (!this.#parts.exclusiveAffinity) return null;', ''),
    ),
    rule(
      'pick-affinity-eligible',
      'A target that is not eligible narrows nothing.',
      test(
        PINS,
        'an affinity target > that is not eligible, as a worker or as a rank, leaves the candidates as they are',
      ),
      fault(
        'src/host/selection-pipeline.ts',
        'if (isTarget(table, row, target)) return target;',
        'return target;',
      ),
    ),
    rule(
      'pick-affinity-first',
      'Narrowed, the filters and scorers see the ranks of the target alone.',
      test(
        PINS,
        'an affinity target > narrows the candidates before anything else sees them, for a policy that is exclusive about it',
      ),
      fault(PIPELINE_SOURCE, 'this.#load(table, pin);', 'this.#load(table, facts.pinnedWorker);'),
    ),
    rule(
      'pick-affinity-pin',
      'A pin comes before it.',
      test(PINS, 'an affinity target > gives way to a pin'),
      fault(
        PIPELINE_SOURCE,
        'facts.pinnedWorker ?? (affinityTarget && this.#affinityPin(table, affinityTarget));',
        '(affinityTarget && this.#affinityPin(table, affinityTarget)) ?? facts.pinnedWorker;',
      ),
    ),
    rule(
      'pick-affinity-session',
      'Under `router.session_affinity` with mode `soft` the target of a request is where its session went before, unless a classifier or a caller names another; a policy that chooses otherwise moves the session.',
      test(
        AFFINITY,
        'a session bound softly > stays on its worker while that can take it, and only its own requests do',
      ),
      fault(
        'src/scheduling/affinity/session-binding.ts',
        'affinityTarget: request.affinityTarget ?? target',
        'affinityTarget: request.affinityTarget ?? null',
      ),
    ),
    rule(
      'pick-affinity-hard',
      'With mode `hard` it is pinned there.',
      test(AFFINITY, 'a session bound hard > goes to its worker whatever the policy would do'),
      fault(
        'src/scheduling/affinity/session-binding.ts',
        "if (this.#mode === 'hard')\n      return {",
        'if (this.#mode === null)\n      return {',
      ),
    ),
  ],
};
