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
    .argument('[request-id]', 'the x-request-id of an answer, or a decision id (d-…)')
    .option('--last', 'the newest decision instead: the last request that got a worker')
    .option('--session <id>', 'the last request of a session instead, by the id that its client sends')
    .option('--admin <address>', 'admin API of the router: a url or host:port', DEFAULT_ADMIN)
    .option('--json', 'the records as a JSON list on stdout')
    .addHelpText(
      'after',
      `
All attempts of the request are shown, oldest first. A decision begins when a worker is booked: a request that was
refused before that has none, and --last shows the newest that was booked, which may be older. A token is taken from POINTSMAN_ADMIN_TOKEN.

Examples:
  $ pointsman explain --last
  $ pointsman explain req-7f3a
  $ pointsman explain --session my-agent-42
  $ pointsman explain d-01J9ZK3V7Q --admin http://127.0.0.1:8001
  $ pointsman explain req-7f3a --json`,
    )
    .action(async (given: string | undefined, options: ExplainOptions) => {
      const { last, session } = options;
      const ways = [given !== undefined, last === true, session !== undefined].filter(Boolean);
      if (ways.length !== 1) {
        throw new PointsmanError(
          'PM_USAGE',
          'explain takes a request id, --last or --session <id>, one of the three',
        );
      }
      const token = io.env.POINTSMAN_ADMIN_TOKEN;
      const id = given ?? (await newestRequest(options.admin, token, session ?? null));
      const records = await fetchRecords(id, options.admin, token);
      if (options.json) writeJson(io, records);
      else io.out(`${records.map(renderDecision).join('\n\n---\n\n')}\n`);
    });
}

interface ExplainOptions {
  readonly admin: string;
  readonly json?: true;
  readonly last?: true;
  readonly session?: string;
}

/** @param session null = of any session, or none. */
async function newestRequest(
  admin: string,
  token: string | undefined,
  session: string | null,
): Promise<string> {
  const of = session === null ? '' : `&session_id=${encodeURIComponent(session)}`;
  const newest = await adminGet(admin, `/decisions?limit=1${of}`, token);
  if (newest === null) throw notAdmin(admin);
  if (Array.isArray(newest) && newest.length > 0) return asRecord(newest[0]).request_id;
  if (session !== null) {
    throw new PointsmanError(
      'PM_DECISION_UNKNOWN',
      `the router at ${admin} remembers no decision of session "${session.slice(0, 80)}"; old ones make room within limits.decision_bytes, and which header names a session is in docs/session-identity.md`,
    );
  }
  throw new PointsmanError(
    'PM_DECISION_UNKNOWN',
    `the router at ${admin} has booked no worker yet; send it a request (one that is refused leaves no decision)`,
  );
}

function notAdmin(admin: string): PointsmanError {
  return new PointsmanError(
    'PM_ADMIN_ANSWER',
    `${admin} has no /decisions, so it is not the admin API; --admin takes the address that serve prints as Admin`,
  );
}

async function fetchRecords(id: string, admin: string, token: string | undefined): Promise<DecisionRecord[]> {
  const attempts = await adminGet(admin, `/decisions?request=${encodeURIComponent(id)}`, token);
  if (attempts === null) throw notAdmin(admin);
  if (Array.isArray(attempts) && attempts.length > 0) return attempts.map(asRecord);
  const one = await adminGet(admin, `/decisions/${encodeURIComponent(id)}`, token);
  if (one !== null) return [asRecord(one)];
  throw new PointsmanError(
    'PM_DECISION_UNKNOWN',
    `the router at ${admin} remembers no decision for "${id.slice(0, 80)}"; a request that was refused before a worker was booked has none, its answer says why, and old ones make room within limits.decision_bytes`,
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
