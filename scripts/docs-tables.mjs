// The pages that are generated from the tables the code uses. generate-docs.mjs writes them, check-docs.mjs compares them.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';
import { contractPage, readContract, readLater } from './contract-rules.mjs';

/** Root of the repository. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * The tables, read from the sources, so that no build has to come first.
 * @returns {Promise<Record<'errors' | 'wireCodes' | 'streamEndCodes' | 'metrics', Record<string, any>>>}
 */
export async function readTables() {
  const jiti = createJiti(import.meta.url);
  const { ERROR_CODES } = await jiti.import('../src/plugin/error-codes.ts');
  const { STREAM_END_CODES, WIRE_CODES } = await jiti.import('../src/gateway/wire-codes.ts');
  const { METRICS } = await jiti.import('../src/observe/metric-table.ts');
  return { errors: ERROR_CODES, wireCodes: WIRE_CODES, streamEndCodes: STREAM_END_CODES, metrics: METRICS };
}

/**
 * Generated pages by path from the root.
 * @returns {Promise<Record<string, string>>}
 */
export async function generatedPages() {
  const { errors, metrics, streamEndCodes, wireCodes } = await readTables();
  const { configJsonSchema } = await createJiti(import.meta.url).import('../src/config/json-schema.ts');
  return {
    'docs/errors.md': errorsPage(errors, wireCodes, streamEndCodes),
    'docs/metrics.md': metricsPage(metrics),
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

function page(title, source, body) {
  const notice = `<!-- Generated from ${source} by scripts/generate-docs.mjs; edit the table, not this page. -->`;
  return `${[`# ${title}`, '', notice, '', ...body].join('\n')}\n`;
}

function table(header, rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(header), `|${' --- |'.repeat(header.length)}`, ...rows.map(line)].join('\n');
}
