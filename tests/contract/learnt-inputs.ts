import { type ContractSection, fault, rule, test } from './rule.ts';

const DECLARED_FACTS = 'src/scheduling/declared-facts.test.ts';
const READ_INPUTS = 'src/host/read-inputs.test.ts';
const ROBUST_FIT = 'src/scheduling/timing/robust-fit.test.ts';

/** Inputs that come of bookings and of what became of them. */
export const LEARNT_INPUTS_RULES: ContractSection = {
  title: 'Inputs: bookings, answers and times',
  rules: [
    rule(
      'inputs-in-flight',
      '`in-flight-blocks` are the leading blocks of the prompt that bookings of a worker hold until they end; the next booking counts them as cached.',
      test(
        DECLARED_FACTS,
        'declared facts > say which leading blocks bookings hold, until they end, and count these as cached for the next booking',
      ),
      fault(
        'src/scheduling/declared-facts.ts',
        'return Math.max(cached, (table.inFlightBlocks[row] ?? 0) * blockSize);',
        'return cached;',
      ),
    ),
    rule(
      'inputs-phases',
      '`request-phases` tells bookings before their first token, with the work that they ask for, from those after it.',
      test(DECLARED_FACTS, 'declared facts > say what bookings are at'),
      fault('src/scheduling/request-phases.ts', 'add(this.#decodeRequests, slot, 1);', ''),
    ),
    rule(
      'inputs-phases-sums',
      'Its sums are those of a plain list of bookings, and exactly 0 when all have ended.',
      test(
        'src/scheduling/request-phases.test.ts',
        'the phases of bookings > are those of a plain list, and nothing when all have ended',
      ),
      fault(
        'src/scheduling/request-phases.ts',
        'add(this.#promptTokens, slot, -phase.promptTokens);',
        'add(this.#promptTokens, slot, -phase.uncachedTokens);',
      ),
    ),
    rule(
      'inputs-cache-pressure',
      '`cache-pressure` is e^(−pool / working set): of the tokens that the KV pool of a worker holds, and the distinct prompt tokens that its bookings used lately, each less the longer ago that was. An engine that is gone, or was restarted, leaves nothing; a pool that nobody knows is under none.',
      test(
        DECLARED_FACTS,
        'declared facts > say how likely it is that what pools forget is asked for again, of workers that say what they hold',
      ),
      fault(
        'src/scheduling/working-sets.ts',
        '/ this.#weight(Math.max(now, this.#latest));',
        '/ this.#weight(this.#latest);',
      ),
    ),
    rule(
      'inputs-cache-pressure-distinct',
      'In a working set what prompts share counts once, and the sums are those of a plain list of what was used.',
      test(
        'src/scheduling/working-sets.test.ts',
        'working sets > are those of a plain list, whatever is used where and when',
      ),
      fault(
        'src/scheduling/working-sets.ts',
        'if (used !== undefined) youngSum -= tokens * this.#weight(used);',
        'if (used !== undefined) youngSum -= tokens;',
      ),
    ),
    rule(
      'inputs-output-length',
      '`output-length` is a mean of finished answers in which the last ones weigh most; null before one has finished.',
      test(
        DECLARED_FACTS,
        'declared facts > say how long answers are, the last ones weighing most, and nothing before one has finished',
      ),
      fault(
        'src/scheduling/output-lengths.ts',
        'length.mean += (tokens - length.mean) / length.count;',
        'length.mean = tokens;',
      ),
    ),
    rule(
      'inputs-timing',
      '`timing` is learnt from the answers of each kind of worker; waits behind other prompts are not taken for work.',
      test(
        DECLARED_FACTS,
        'declared facts > learn how long workers take, also where others wait before a prompt',
      ),
      fault(
        'src/scheduling/request-phases.ts',
        'const ms = now - (this.#periodStarts[slot] ?? Number.NaN);',
        'const ms = 4 * (now - (this.#periodStarts[slot] ?? Number.NaN));',
      ),
    ),
    rule(
      'inputs-timing-settles',
      'Within 200 requests `timing` is right where it began four times too fast or too slow.',
      test(
        ROBUST_FIT,
        'a robust fit > is within a tenth after 200 requests when it starts four times too fast, waits that nobody knows of among them',
      ),
      fault(
        'src/scheduling/timing/robust-fit.ts',
        'this.#learn(now * Math.min(most, Math.max(1 / most, miss)));',
        'this.#learn(now);',
      ),
    ),
    rule(
      'inputs-timing-bounded',
      'Whatever is observed, `timing` stays finite and within its bounds, and finds back.',
      test(
        ROBUST_FIT,
        'a robust fit > stays finite and within its bounds whatever it is told, and finds back',
      ),
      fault(
        'src/scheduling/timing/robust-fit.ts',
        'if (!(ms > 0 && ms <= LONGEST)) return false;',
        'if (ms <= 0) return false;',
      ),
    ),
    rule(
      'inputs-facts-declared',
      'Where nobody declares in-flight blocks, phases, cache pressure, output length or timing, none of it is looked for and no time is read.',
      test(
        DECLARED_FACTS,
        'declared facts > are not looked for, and no time is read, where nobody declares them',
      ),
      fault('src/scheduling/declared-facts.ts', 'if (!phases && !outputLength && !timing) return;', ''),
    ),
    rule(
      'inputs-when',
      'A hint policy that says with `inputsWhen` which inputs an instance reads has the others not prepared for it.',
      test(READ_INPUTS, 'inputs of an instance > are those that it reads with its parameters'),
      fault(
        'src/host/read-inputs.ts',
        'return { reads: inputs.filter((input) => answer.includes(input)), fault: null };',
        'return { reads: inputs, fault: null };',
      ),
    ),
    rule(
      'inputs-when-known',
      'An answer that names others, is no list, or a throw ends the start.',
      test(READ_INPUTS, 'inputs of an instance > are refused where the answer is no list'),
      fault(
        'src/host/read-inputs.ts',
        'if (Array.isArray(answer) && answer.every',
        'if (Array.isArray(answer) || answer.every',
      ),
    ),
  ],
};
