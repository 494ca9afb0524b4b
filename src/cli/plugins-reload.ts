// `pointsman plugins reload`: has a running router read its configuration and plugins again.
import type { Command } from 'commander';
import { PointsmanError } from '../plugin/index.ts';
import { adminPost, DEFAULT_ADMIN } from './admin-client.ts';
import { type CliIo, writeJson } from './output.ts';
import { fieldsOf, listOf, textOf } from './plugins-answer.ts';

/** A reload may wait a minute for an older one to drain, and for plugins to load. */
const TIMEOUT_MS = 150_000;

/** Adds the command. */
export function registerReload(group: Command, io: CliIo): void {
  group
    .command('reload')
    .description('read configuration, plugin files and packages again')
    .option('--admin <address>', 'admin API of the router: a url or host:port', DEFAULT_ADMIN)
    .option('--json', 'what became of it as JSON on stdout')
    .addHelpText(
      'after',
      `
Nothing changes unless all of it can be used; then exit 1, and the reasons on stdout. A token is taken from
POINTSMAN_ADMIN_TOKEN.

Examples:
  $ pointsman plugins reload
  $ pointsman plugins reload --admin http://127.0.0.1:8001 --json`,
    )
    .action(async ({ admin, json }: { admin: string; json?: true }) => {
      const answer = await adminPost(admin, '/plugins/reload', io.env.POINTSMAN_ADMIN_TOKEN, TIMEOUT_MS);
      if (answer === null) {
        throw new PointsmanError(
          'PM_ADMIN_ANSWER',
          `${admin} has no /plugins/reload; --admin takes the address that serve prints as Admin`,
        );
      }
      if (json) writeJson(io, answer.body);
      else io.out(reloadText(answer.body));
      if (answer.status !== 200) io.exit(1);
    });
}

/** A report in words. */
function reloadText(report: unknown): string {
  const { generation, problems, result, warnings } = fieldsOf(report);
  const first = {
    applied: `reloaded: generation ${textOf(generation)} serves`,
    unchanged: 'nothing has changed',
    failed: 'the reload failed, everything stays as it was:',
  }[textOf(result)];
  const lines = [first ?? textOf(result), ...listOf(problems).map(textOf)];
  return `${[...lines, ...listOf(warnings).map((one) => `warning: ${textOf(one)}`)].join('\n')}\n`;
}
