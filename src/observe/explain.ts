// A decision record as text for people: every candidate with every cost term, then what was picked, booked, hinted, predicted
// and what came of it.
import type {
  AffinityRecord,
  ClassificationRecord,
  DecisionRecord,
  HandoffRecord,
  TimingFitRecord,
} from './decision-record.ts';
import { candidates } from './explain-candidates.ts';
import { type TextCell, textTable } from './text-table.ts';

/** The text of one record, several lines without one at the end. */
export function renderDecision(record: DecisionRecord): string {
  return [
    heading(record),
    candidates(record),
    ...timings(record),
    ...copies(record),
    picked(record),
    ...hints(record),
    ...outcome(record),
    `wall: ${Object.entries(record.wall)
      .map(([name, micros]) => `${name.replace(/_us$/, '')} ${number(micros)} µs`)
      .join(', ')}`,
  ].join('\n\n');
}

function heading(record: DecisionRecord): string {
  const { index, policy, prompt, queue, session } = record;
  const instance = policy.instance === null ? '' : ` (instance ${policy.instance})`;
  const ages = Object.entries(index.per_worker_age_ms).map(
    ([worker, age]) => `worker ${worker} ${number(age)} ms ago`,
  );
  const lines = [
    `decision ${record.id}  request ${record.request_id}  attempt ${record.attempt}  ${isoTime(record.at_ms)}`,
    `door ${record.door}  model ${record.model}  routing group ${record.partition.routing_group}  role ${record.role}  mode ${record.mode}`,
    `policy ${policy.type}${instance} ${policy.version}`,
    `prompt ${prompt.tokens} tokens (${sourceOf(prompt)}), ${prompt.blocks} blocks of ${prompt.block_size}` +
      (prompt.head_hash === null ? '' : `, head hash ${prompt.head_hash}`),
    `queue ${queue.class}: ${queue.outcome}, waited ${number(queue.waited_ms)} ms${turn(queue)}`,
    `index ${index.kind}, version ${index.version}` +
      (ages.length === 0 ? '' : `, last event: ${ages.join(', ')}`) +
      (index.stale_workers.length === 0 ? '' : `, stale: ${index.stale_workers.join(', ')}`),
  ];
  // A router of an earlier version says nothing of it.
  const differs = record.parity?.findings ?? [];
  if (differs.length > 0) lines.push(`parity ${differs.join(', ')} (pointsman doctor says what to change)`);
  const classification = record.classification ?? null;
  if (classification !== null) lines.push(classified(classification));
  lines.push(...said(record));
  const handoff = record.handoff ?? null;
  if (handoff !== null) lines.push(handedOver(handoff));
  const affinity = record.affinity ?? null;
  if (affinity !== null) lines.push(bound(affinity));
  if (session === null) lines.push('session none');
  else {
    const parent = session.parent_hash === null ? '' : `, parent ${session.parent_hash}`;
    const trigger = session.trigger === null ? '' : `, trigger ${session.trigger}`;
    lines.push(`session ${session.id_hash}${parent}${trigger}${session.final ? ', final request' : ''}`);
  }
  return lines.join('\n');
}

/** What its turn cost; nothing of models without queues. */
function turn({ bucket = null, cost_tokens: cost = null }: DecisionRecord['queue']): string {
  const paid = cost === null ? '' : `, cost ${cost} tokens`;
  return bucket === null ? paid : `${paid}, bucket ${bucket}`;
}

/** What is known of an estimate's reason; a router of an earlier version says nothing of it. */
const ESTIMATED: Readonly<Record<string, string>> = {
  content: 'it holds more than text, whose tokens only the engine knows',
  template: 'the chat template refuses it',
  source: 'the model has no tokenizer here',
  engine_refused: 'the engine would not tokenize it',
  engine_silent: 'no engine told its tokens in time',
  engine_busy: 'too many prompts were waiting for an engine to tokenize them',
  no_engine: 'no worker could be asked for its tokens',
};

function sourceOf({ estimated, tokens_source: source }: DecisionRecord['prompt']): string {
  const reason = (estimated ?? null) === null ? undefined : ESTIMATED[estimated ?? ''];
  return reason === undefined ? source : `${source}, as ${reason}: no block is hashed or matched`;
}

function classified({ classifier, overrides, result, waited_ms }: ClassificationRecord): string {
  const target = overrides.worker_target;
  const changes = Object.entries({
    'policy class': overrides.policy_class,
    'due at': overrides.due_at_ms,
    'cost in tokens': overrides.scheduling_cost_tokens,
    target: target && `worker ${target.worker_id}${target.dp_rank === null ? '' : ` rank ${target.dp_rank}`}`,
  })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `, ${name} ${value ?? 'cleared'}`);
  return `classifier ${classifier}: ${result} after ${number(waited_ms)} ms${changes.join('')}`;
}

/** What the agent said of its request and counts, and what was removed of it; a router of an earlier version says nothing of either. */
function said({ agent_hints: hints = null, stripped = [] }: Partial<DecisionRecord>): string[] {
  const lines: string[] = [];
  if (hints !== null) {
    const words = [
      hints.priority === null ? '' : `priority ${hints.priority}`,
      hints.strict_priority === 0 ? '' : `strict priority ${hints.strict_priority}`,
      hints.expected_output_tokens === null ? '' : `${hints.expected_output_tokens} output tokens expected`,
      hints.speculative_prefill ? 'next turn computed ahead' : '',
    ];
    lines.push(`agent hints: ${words.filter(Boolean).join(', ') || 'nothing'}`);
  }
  if (stripped.length > 0)
    lines.push(`removed, as the caller is not trusted with it: ${stripped.join(', ')}`);
  return lines;
}

/** Why a decode worker computes a prompt itself. */
const LOCAL: Readonly<Record<NonNullable<HandoffRecord['local']>, string>> = {
  short: 'little of it is not cached there (conditional_disagg)',
  prefill_busy: 'the prefill workers are busy (conditional_disagg)',
  no_prefill_worker: 'no prefill worker is ready (decode_fallback)',
};

/** Which part of a request that two workers serve this is, and where the other is. */
function handedOver({ kind, leg, local, other }: HandoffRecord): string {
  if (local !== null) return `leg ${leg}: the decode worker computes the prompt as well, as ${LOCAL[local]}`;
  const what =
    leg === 'prefill' ? 'computes the prompt for another worker' : 'decodes what another worker computed';
  const how = kind === null ? 'nothing was handed over' : `KV goes over by ${kind}`;
  const opposite = leg === 'prefill' ? 'decode' : 'prefill';
  const where =
    other === null
      ? `no ${opposite} leg was booked`
      : `${opposite} leg on worker ${other.worker_id} rank ${other.dp_rank}, decision ${other.decision_id}`;
  return `leg ${leg}: ${what}, ${how}, ${where}`;
}

/** What became of a session's binding. */
const AFFINITY: Readonly<Record<AffinityRecord['outcome'], string>> = {
  initialised: 'bound by this request',
  bound: 'the request had to go there',
  kept: 'the request went there',
  moved: 'the request went elsewhere, and the binding with it',
  invalidated: 'the worker failed the request, and the binding is dropped',
};

/** Where the session of the request was bound, and what the request made of it. */
function bound({ mode, outcome, target, waited_ms: waitedMs }: AffinityRecord): string {
  const rank = (target?.dp_rank ?? null) === null ? '' : ` rank ${target?.dp_rank}`;
  const where =
    target === null ? 'session bound nowhere' : `session bound to worker ${target.worker_id}${rank}`;
  const waited = waitedMs === null ? '' : `, waited ${number(waitedMs)} ms for the binding`;
  return `affinity ${mode}: ${where}, ${AFFINITY[outcome]}${waited}`;
}

/** Times of the kinds that candidates shown are of, and which are of which. A router of an earlier version records none. */
function timings(record: DecisionRecord): string[] {
  const kinds = record.timing ?? null;
  if (kinds === null) return [];
  const rows = kinds.flatMap(({ decode, prefill }, kind): TextCell[][] => {
    const workers = record.candidates.filter((one) => one.eligible && one.timing === kind);
    if (workers.length === 0) return [];
    const names = workers.slice(0, 8).map(({ worker_id: id }) => String(id));
    const more = workers.length > names.length ? ` and ${workers.length - names.length} more` : '';
    const sure = (fit: TimingFitRecord) => [fit.observations, fit.error, fit.confidence];
    return [
      [
        kind,
        'prefill',
        `${scaled(prefill.token_ms, 1e3)} µs a token, ${scaled(prefill.attention_ms, 1e6)} ns a pair, ${scaled(prefill.pass_ms, 1)} ms a prompt`,
        ...sure(prefill),
        names.join(' ') + more,
      ],
      [
        kind,
        'decode',
        `${scaled(decode.ms, 1)} ms a token, ${scaled(decode.fill_ms, 1)} ms more as prompts fill the worker`,
        ...sure(decode),
        '',
      ],
    ];
  });
  const columns = ['kind', 'phase', 'times', 'observations', 'error', 'confidence', 'workers'];
  return rows.length === 0 ? [] : [`timing fits of workers\n${textTable(columns, rows)}`];
}

/** What a cost that counts on copies knew of them. */
function copies({ copy_link: link }: DecisionRecord): string[] {
  if (link === undefined) return [];
  if (link === null) return ['copies from peers: none was measured, times as the policy states them'];
  const { block_ms: blockMs, confidence, latency_ms: latencyMs } = link;
  return [
    `copies from peers took ${scaled(latencyMs, 1)} ms and ${scaled(blockMs, 1)} ms a block, confidence ${scaled(confidence, 1)}`,
  ];
}

/** Of small and large numbers alike four digits. */
function scaled(value: number, times: number): string {
  return String(Number((value * times).toPrecision(4)));
}

function picked({ booking, pick }: DecisionRecord): string {
  const draw = pick.random_draw === null ? '' : `, drew ${number(pick.random_draw)}`;
  const ties = pick.ties > 1 ? ` among ${pick.ties} equal` : '';
  const end =
    booking.released === null
      ? 'still held'
      : `released (${booking.released}) after ${number(booking.held_ms ?? 0)} ms`;
  return [
    `picked worker ${pick.worker_id} rank ${pick.dp_rank} by ${pick.by}${ties}, temperature ${number(pick.temperature)}${draw}`,
    `booked ${booking.prefill_tokens} prefill tokens and ${booking.decode_blocks} decode blocks as attempt ${booking.attempt_id}, ${end}`,
  ].join('\n');
}

function hints({ hints: stage }: DecisionRecord): string[] {
  if (stage === null) return [];
  const capable = stage.capable ? '' : ', the engine takes no hints';
  const none = stage.policies.length === 0 && stage.sent.length === 0 ? ': no hint policy ran' : '';
  const parts = [`hints (message ${stage.message_id}${capable})${none}`];
  if (stage.policies.length > 0) {
    const rows = stage.policies.map(({ actions, error_code, name, reason, result, us }): TextCell[] => {
      return [
        name,
        result,
        actions ?? null,
        us,
        [reason, error_code].filter((word) => word !== undefined).join(' '),
      ];
    });
    parts.push(textTable(['policy', 'result', 'actions', 'µs', 'why'], rows));
  }
  if (stage.sent.length > 0) {
    const rows = stage.sent.map(
      ({ action_id, blocks_done, bytes, outcome: end, policy, reason, type }): TextCell[] => {
        // A router of an earlier version records no reasons.
        const why = (reason ?? null) === null ? '' : ` (${reason})`;
        return [action_id, type, policy, bytes, `${end ?? 'not yet known'}${why}`, blocks_done];
      },
    );
    parts.push(textTable(['action', 'type', 'policy', 'bytes', 'outcome', 'blocks done'], rows));
  }
  return [parts.join('\n')];
}

/** Prediction against report, and how the request ended. */
function outcome({ outcome: end, prediction, prompt, report }: DecisionRecord): string[] {
  const lines: string[] = [];
  const share = (tokens: number): string =>
    prompt.tokens > 0 ? `${tokens} (${number((100 * tokens) / prompt.tokens)} %)` : String(tokens);
  if (prediction !== null || report !== null) {
    const predicted =
      prediction === null ? 'nothing' : `${share(prediction.cached_tokens)}${tiers(prediction)}`;
    const withHints = prediction === null ? '' : `, with hints ${share(prediction.with_hints_tokens)}`;
    const cached = report?.cached_tokens ?? null;
    const reported = cached === null ? 'nothing' : `${share(cached)} from ${report?.source}`;
    lines.push(`cached tokens: predicted ${predicted}${withHints}; reported ${reported}`);
  }
  if (end === null) return [[...lines, 'outcome: under way'].join('\n')];
  const outputTokens = report?.output_tokens ?? null;
  const unseen = outputTokens === null || outputTokens === 0 ? 'no token' : 'first token not seen';
  const ttft = end.ttft_ms === null ? unseen : `first token after ${number(end.ttft_ms)} ms`;
  const tokens = outputTokens === null ? '' : `, ${outputTokens} output tokens`;
  lines.push(
    `outcome: status ${end.status}, ${end.finish ?? 'no finish reason'}, ${ttft}, ended after ${number(end.e2e_ms)} ms${tokens}, ${end.retries} retries`,
  );
  return [lines.join('\n')];
}

/** Where the tokens lie, unless all are on the device. A router of an earlier version does not say. */
function tiers({ cached_by_tier: found }: NonNullable<DecisionRecord['prediction']>): string {
  const { device, host }: { device?: number; host?: number } = found ?? {};
  return host === undefined || host === 0 ? '' : `: ${device} on the device, ${host} in host memory`;
}

function number(value: number): string {
  return String(Number(value.toFixed(3)));
}

function isoTime(ms: number): string {
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`;
}
