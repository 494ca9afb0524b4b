// `pointsman explain`: asks a running router for the decisions of one request and prints them.
import type { Command } from 'commander';
import { type DecisionRecord, renderDecision } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { adminGet, DEFAULT_ADMIN } from './admin-client.ts';
import { type CliIo, writeJson } from './output.ts';

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('explain')
    .description('show one decision: candidates, cost terms, hints, prediction against outcome')
    .argument('<request-id>', 'the x-request-id of an answer, or a decision id (d-…)')
    .option('--admin <url>', 'admin API of the router', DEFAULT_ADMIN)
    .option('--json', 'the records as a JSON list on stdout')
    .addHelpText(
      'after',
      `
All attempts of the request are shown, oldest first. A token is taken from POINTSMAN_ADMIN_TOKEN.

Examples:
  $ pointsman explain req-7f3a
  $ pointsman explain d-01J9ZK3V7Q --admin http://127.0.0.1:8001
  $ pointsman explain req-7f3a --json`,
    )
    .action(async (id: string, options: { admin: string; json?: true }) => {
      const records = await fetchRecords(id, options.admin, io.env.POINTSMAN_ADMIN_TOKEN);
      if (options.json) writeJson(io, records);
      else io.out(`${records.map(renderDecision).join('\n\n---\n\n')}\n`);
    });
}

async function fetchRecords(id: string, admin: string, token: string | undefined): Promise<DecisionRecord[]> {
  const attempts = await adminGet(admin, `/decisions?request=${encodeURIComponent(id)}`, token);
  if (attempts === null) {
    throw new PointsmanError(
      'PM_ADMIN_ANSWER',
      `${admin} has no /decisions, so it is not the admin API; --admin takes the address that serve prints as Admin`,
    );
  }
  if (Array.isArray(attempts) && attempts.length > 0) return attempts.map(asRecord);
  const one = await adminGet(admin, `/decisions/${encodeURIComponent(id)}`, token);
  if (one !== null) return [asRecord(one)];
  throw new PointsmanError(
    'PM_DECISION_UNKNOWN',
    `the router at ${admin} remembers no decision for "${id.slice(0, 80)}"; old ones make room within limits.decision_bytes`,
  );
}

/** The schema number stands for the whole shape: the router that wrote the record is the one that is asked. */
function asRecord(value: unknown): DecisionRecord {
  if (typeof value === 'object' && value !== null && 'schema' in value && value.schema === 1) {
    return value as DecisionRecord;
  }
  throw new PointsmanError(
    'PM_ADMIN_ANSWER',
    'the admin API answered a decision of another schema than 1; use the pointsman of the same version',
  );
}
