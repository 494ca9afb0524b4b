import { type ContractSection, fault, rule, test } from './rule.ts';

const RESERVATIONS = 'tests/selection-hint-actions.test.ts';
const reservation = (what: string) => test(RESERVATIONS, `reservations > ${what}`);
const retry = (what: string) => test('src/road/retry.test.ts', what);

/** Bookings that follow another step: reservations of what was selected, and second tries. */
export const BOOKING_RULES: ContractSection = {
  title: 'Reservations and second tries',
  rules: [
    rule(
      'reserve-hints',
      'Where selecting and booking are two calls, hint policies run with the booking, by either form of it, and not with the selection.',
      reservation('run hint policies when they book, by either form, and selections run none'),
      fault(
        'src/services/selection/selection-routes.ts',
        '...(hint === null ? {} : { kv_hint: hint })',
        '...(hint === null ? { kv_hint: hint } : {})',
      ),
    ),
    rule(
      'reserve-sources',
      'A reservation by replay looks at copy sources anew: one that came since the selection is named, one that went is not.',
      reservation('name the sources of the moment they book, not those of the selection'),
      fault(
        'src/services/selection/road-requests.ts',
        'looksUp: true,\n    sharesBlocks: held.sharesBlocks,',
        'looksUp: false,\n    sharesBlocks: held.sharesBlocks,',
      ),
    ),
    rule(
      'reserve-target',
      'A reservation by replay books the worker and rank of its selection, whatever the policy would choose now.',
      reservation('book what was selected, whatever the policy would choose now'),
      fault(
        'src/services/selection/road-requests.ts',
        'const constraints = { ...pinnedAt(held.workerId, held.rank), priority, strictPriority };',
        'const constraints = { ...NO_CONSTRAINTS, priority, strictPriority };',
      ),
    ),
    rule(
      'retry-once-classified',
      'A second try is a new booking with the overrides of its one classification: the classifier is asked once.',
      retry('the classifier > is asked once, and its overrides count for every try'),
      fault(
        'src/road/exchange.ts',
        'this.classification = earlier.classification;',
        'this.classification = null;',
      ),
    ),
    rule(
      'retry-one-end',
      'Whatever becomes of the tries, the classifier hears of one end.',
      retry('the classifier > is asked once, and hears of one end, whatever becomes of the tries'),
      fault(
        'src/road/exchange.ts',
        'if (!goesOn) this.#lifecycle?.ended(report, code);',
        'this.#lifecycle?.ended(report, code);',
      ),
    ),
    rule(
      'retry-message-id',
      'The hints of each try go out under a message id of their own.',
      retry(
        'a request whose worker fails before the first byte > sends the hints of each try under a message id of its own, and late outcomes find the right one',
      ),
      fault(
        'src/road/message-id.ts',
        'return booking > 1 ? `${own}/${booking}` : own;',
        'return booking > 9 ? `${own}/${booking}` : own;',
      ),
    ),
  ],
};
