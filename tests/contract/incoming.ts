import { type ContractSection, fault, rule, test } from './rule.ts';

const STAGE = 'src/host/hint-stage.test.ts';
const STAGE_SOURCE = 'src/host/hint-stage.ts';
const INGRESS = 'src/gateway/ingress.test.ts';

/** Envelopes that clients send. */
export const INCOMING_RULES: ContractSection = {
  title: 'Hints of trusted callers',
  rules: [
    rule(
      'incoming-trusted',
      'An envelope is kept only from networks in `router.trust_incoming_hints_from`.',
      test(
        'src/gateway/generate.test.ts',
        'a generate request > honours routing fields and hints only from trusted networks',
      ),
      fault(
        'src/gateway/callers.ts',
        'trustsHints: networkCheck(config.router.trustIncomingHintsFrom),',
        'trustsHints: () => true,',
      ),
    ),
    rule(
      'incoming-nobody',
      'By default there are none.',
      test('src/config/load.test.ts', 'the defaults are those of an empty file'),
      fault(
        'src/config/build.ts',
        'trustIncomingHintsFrom: router.trust_incoming_hints_from,',
        "trustIncomingHintsFrom: ['127.0.0.0/8'],",
      ),
    ),
    rule(
      'incoming-removed',
      'From anyone else the field is removed at ingress and counted.',
      test(INGRESS, 'ingress > drops and counts body field kv_hints of an untrusted caller'),
      fault('src/gateway/ingress.ts', 'else this.#removed(field);', ''),
    ),
    rule(
      'incoming-malformed',
      'So is a malformed one, as a whole.',
      test(INGRESS, 'ingress > drops and counts a malformed envelope of a trusted caller as a whole (2)'),
      fault('src/gateway/hint-envelope.ts', "value.protocol_version !== '0.1' ||", ''),
    ),
    rule(
      'incoming-nested',
      'It may stand in `kv_transfer_params.kv_hint` as well as in `kv_hints`.',
      test(
        INGRESS,
        'ingress > keeps a hint in kv_transfer_params from a trusted caller and drops what else stands there',
      ),
      fault('src/gateway/router-only-fields.ts', "NESTED_HINT = 'kv_hint'", "NESTED_HINT = 'kv_hints'"),
    ),
    rule(
      'incoming-first',
      'Its actions come before those of policies, count toward 32 and are renumbered with the rest.',
      test(
        STAGE,
        'a trusted caller’s envelope > comes first, is renumbered, counts toward the cap and keeps its message id',
      ),
      fault(
        'src/host/hint-draft.ts',
        'judgeOutput(output, this.limitsFor(null, accepted)), 0)',
        'judgeOutput(output.slice(1), this.limitsFor(null, accepted)), 0)',
      ),
    ),
    rule(
      'incoming-message-id',
      'Its message id is kept.',
      test(
        STAGE,
        'a trusted caller’s envelope > comes first, is renumbered, counts toward the cap and keeps its message id',
      ),
      fault(STAGE_SOURCE, 'kept ? incoming.message_id : own', 'own'),
    ),
    rule(
      'incoming-gate',
      'It is sent even where no policy runs, and passes the same gate of capabilities.',
      test(
        STAGE,
        'a trusted caller’s envelope > is sent even where no policy runs, and dropped where the rank does not accept it',
      ),
      fault(
        'src/host/hint-draft.ts',
        'judgeOutput(output, this.limitsFor(null, accepted)), 0)',
        'judgeOutput(output, this.limitsFor(null, null)), 0)',
      ),
    ),
  ],
};
