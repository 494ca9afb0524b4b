// The pages that are generated from the tables the code uses. generate-docs.mjs writes them, check-docs.mjs compares them.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';
import { contractPage, readContract, readLater } from './contract-rules.mjs';

/** Root of the repository. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * The tables, read from the sources, so that no build has to come first.
 * @returns {Promise<Record<'errors' | 'wireCodes' | 'streamEndCodes' | 'metrics' | 'findings', Record<string, any>>>}
 */
export async function readTables() {
  const jiti = createJiti(import.meta.url);
  const { ERROR_CODES } = await jiti.import('../src/plugin/error-codes.ts');
  const { STREAM_END_CODES, WIRE_CODES } = await jiti.import('../src/gateway/wire-codes.ts');
  const { METRICS } = await jiti.import('../src/observe/metric-table.ts');
  const { FINDINGS } = await jiti.import('../src/parity/finding-table.ts');
  return {
    errors: ERROR_CODES,
    wireCodes: WIRE_CODES,
    streamEndCodes: STREAM_END_CODES,
    metrics: METRICS,
    findings: FINDINGS,
  };
}

/**
 * Generated pages by path from the root.
 * @returns {Promise<Record<string, string>>}
 */
export async function generatedPages() {
  const { errors, findings, metrics, streamEndCodes, wireCodes } = await readTables();
  const { configJsonSchema } = await createJiti(import.meta.url).import('../src/config/json-schema.ts');
  return {
    'docs/errors.md': errorsPage(errors, wireCodes, streamEndCodes),
    'docs/metrics.md': metricsPage(metrics),
    'docs/parity.md': parityPage(findings),
    'docs/plugin-contract.md': contractPage(await readContract(), await readLater()),
    'docs/router.schema.json': `${JSON.stringify(configJsonSchema(), null, 2)}\n`,
  };
}

function errorsPage(errors, wireCodes, streamEndCodes) {
  const rows = Object.entries(errors).map(([code, { meaning, retryable, status }]) => {
    return [`\`${code}\``, meaning, String(status), retryable ? 'yes' : 'no'];
  });
  return page('Errors', 'src/plugin/error-codes.ts', [
    'Every error that Pointsman raises on purpose has one of these codes; the message of an error is one sentence that says what',
    'is wrong, where, and what would be right. The status is what a request that ends with the error is answered with; it plays no',
    'part where no request is involved. "Retry" says whether the same request, sent again, can succeed.',
    '',
    table(['code', 'meaning', 'status', 'retry'], rows),
    '',
    '## What clients are answered with',
    '',
    'Clients of the OpenAI doors get `{"error": {"message", "type", "param", "code"}}`, with `details` where there are any. `code` is the',
    'code above, or, where the API has a name of its own for the error, that one. The status is that of the table above, but for three cases:',
    'what an engine refused (`PM_ENGINE_REFUSED`) has the status of the engine, a 503 of an engine (`PM_ENGINE_FAILED`) stays 503, and 429',
    'is `limits.overload_status` where the router refuses because of load.',
    '',
    table(
      ['code', 'on the wire', 'status'],
      Object.entries(wireCodes).map(([code, wire]) => [
        `\`${code}\``,
        `\`${wire}\``,
        String(errors[code].status),
      ]),
    ),
    '',
    'Once bytes of a stream have gone out, the status is sent and no other worker is tried: the stream ends with one more event,',
    '`data: {"error": …}`, and without `[DONE]`. Its `code` is ' +
      `\`${streamEndCodes.other}\`, or \`${streamEndCodes.stopping}\` where the router stops.`,
  ]);
}

function metricsPage(metrics) {
  const rows = Object.entries(metrics).map(([name, { dynamo, help, kind, labels }]) => {
    const named = labels.map((label) => `\`${label}\``).join(', ');
    return [`\`${name}\``, kind, named || '–', help, dynamo === undefined ? '–' : `\`${dynamo}\``];
  });
  return page('Metrics', 'src/observe/metric-table.ts', [
    'What `GET /metrics` on the admin port answers, in the Prometheus text format. Every name is there before any request. Units are',
    'in the names. A metric has at most 4,096 label sets; further ones are counted together with every label `other`. The last column',
    "names the Rust router's metric for the same thing, so that a dashboard can be moved over.",
    '',
    table(['name', 'kind', 'labels', 'meaning', 'in the Rust router'], rows),
  ]);
}

function parityPage(findings) {
  const rows = Object.entries(findings).map(([code, { effect, remedy, says }]) => {
    const { any, ...others } = remedy;
    const own = Object.entries(others).map(([dialect, text]) => `${dialect}: ${text}`);
    return [`\`${code}\``, effect, says, [any, ...own].join('<br>')];
  });
  return page('Parity', 'src/parity/finding-table.ts', [
    'A cache-aware router is as good as what it believes of its engines. Where an engine hashes other tokens, publishes no events or forgets',
    'without a word, requests are still answered and nothing fails: the hit rate is just low. Pointsman compares all the time, and says in',
    'words what differs and which flag or key to change.',
    '',
    '## pointsman doctor',
    '',
    '```sh',
    'pointsman doctor --config router.yaml          # the workers of a configuration',
    'pointsman doctor --admin http://127.0.0.1:8001 # those of a running router',
    'pointsman doctor --worker http://10.0.0.7:8000 # engines alone',
    '```',
    '',
    'It sends a few short prompts of random tokens to every rank, as the router would send a request: one prompt twice, once with a cache',
    'salt, once for an adapter (where the worker has `adapters`), and a chat (where the model has a tokenizer here). It subscribes to the KV',
    'events of every rank, applies them to an index of its own, and asks each replay endpoint for a batch that it just heard. Where nobody',
    'listens at an event endpoint of this machine it listens there itself for two seconds, to see whether the engine connects. Prompts',
    'take a few blocks of each cache; nothing else is changed. It takes a few seconds, for up to eight workers at a time.',
    '',
    'A rank that is connected and silent under a topic is listened to without one for a moment, and sent up to three more prompts, to',
    'see under which topic it speaks. The',
    'tokens of the chat are compared with those that the engine tells (vLLM: `return_token_ids` and `/tokenize`); what is said of a',
    'difference is where it begins, how many tokens there are and the likely cause, never a token or any text.',
    '',
    'Findings go to stdout, progress to stderr. `--verbose` lists before them, for each worker, the checks that it passed and those that',
    'could not be made, with the reason: no tokenizer here, no adapters configured, no other worker to compare hashes with.',
    'What cannot be tested from outside is said on stderr too: a chat template where no chat is rendered here, and with `--worker` the KV',
    'events of a server that does not say where they are, such as vLLM: name them under `workers[].kv_events` and use `--config`. Workers of',
    '`dialect: llamacpp-node` run in the process of the router, have no wire to be asked over, and are left out.',
    'Exit code 0: nothing was found. 1: something was, or the router of `--admin` or an engine of `--worker` cannot be asked (then stdout is',
    'empty). 2: usage or configuration.',
    '',
    '`--json` prints one object:',
    '',
    '| member | meaning |',
    '| --- | --- |',
    '| `healthy` | whether nothing was found |',
    '| `checks` | codes of all checks that are made |',
    '| `workers[]` | `id`, `url`, `model`; `passed`: codes of the checks that it passed; `untested`: the others that found nothing, `{ code, reason }` each |',
    '| `findings[]` | `code`, `effect` (`unusable` or `degraded`), `worker`, `rank` (null = the worker as a whole), `sentence`, `remedy` |',
    '',
    '## While the router runs',
    '',
    'The same checks run on traffic, without any request of their own: events as they come, and up to four answered prompts of a rank and',
    'kind (plain, salted, of an adapter) at a time, each compared a quarter of a second after its answer with the blocks that its engine',
    'announced. Three prompts must show the same before it is said. Replay endpoints are asked for a batch that was heard, after four live',
    'batches and seldom afterwards. A router that only listens cannot tell an engine that connects from one that publishes nothing: both are',
    '`not_connected`. Nor does it listen beside its topic: `topic` is the doctor’s, and looks like `events_off` here.',
    '',
    'With `parity.ask_token_ids: true` vLLM is asked for the ids of one request of a rank in 128, and where they differ `template` says',
    'from which token on and why. Without cached-token reports nothing can be audited: `cached_not_reported` says so after three prompts',
    'of which the engine has blocks.',
    '',
    'Predicted and reported cached tokens are compared over the newest 64 requests of each rank. Requests that disagree by more than a block',
    'are counted, never averaged: six requests and three fifths of them must disagree the same way, and then `over_predicted` or',
    '`under_predicted` names the likely cause out of what else is known.',
    '',
    'What is found stands in the warnings of `/ready`, under `parity` of each rank in `GET /workers` (with the window of predictions), in',
    '`parity.findings` of each [decision record](decision-record.md), and in `pointsman_parity_findings`, `pointsman_parity_prompts_total` and',
    '`pointsman_prediction_drifts` of [metrics.md](metrics.md). It goes when it is cured: verdicts are of the newest 32 prompts, counts of events',
    'fade, and an engine that starts anew is judged anew.',
    '',
    'A rank whose events are `unusable` has its cache estimated from what is sent to it: `approximate` in `GET /workers` says so, with',
    '`parity_failed` where most prompts were stored as other tokens or under other parents, `other_block_size` or `not_heard`.',
    '',
    '## Findings',
    '',
    'Words in braces are facts of the case. The sentence is followed by what to change, in the words of the engine where its dialect is known.',
    '',
    table(['code', 'effect', 'what is said', 'what to change'], rows),
  ]);
}

function page(title, source, body) {
  const notice = `<!-- Generated from ${source} by scripts/generate-docs.mjs; edit the table, not this page. -->`;
  return `${[`# ${title}`, '', notice, '', ...body].join('\n')}\n`;
}

function table(header, rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(header), `|${' --- |'.repeat(header.length)}`, ...rows.map(line)].join('\n');
}
