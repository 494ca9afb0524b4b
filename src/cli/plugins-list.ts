// `pointsman plugins list`: what a running router has loaded, where it runs, and what the latest reload made of it.
import type { Command } from 'commander';
import { textTable } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { adminGet, DEFAULT_ADMIN } from './admin-client.ts';
import { type CliIo, writeJson } from './output.ts';
import { fieldsOf, listOf, textOf } from './plugins-answer.ts';

/** Adds the command. */
export function registerList(group: Command, io: CliIo): void {
  group
    .command('list')
    .description('what is loaded, where it runs, and what became of the latest reload')
    .option('--admin <address>', 'admin API of the router: a url or host:port', DEFAULT_ADMIN)
    .option('--json', 'the answer of GET /plugins on stdout')
    .addHelpText(
      'after',
      `
A token is taken from POINTSMAN_ADMIN_TOKEN.

Examples:
  $ pointsman plugins list
  $ pointsman plugins list --admin http://127.0.0.1:8001 --json`,
    )
    .action(async ({ admin, json }: { admin: string; json?: true }) => {
      const answer = await adminGet(admin, '/plugins', io.env.POINTSMAN_ADMIN_TOKEN);
      if (answer === null || !('generation' in fieldsOf(answer))) {
        throw new PointsmanError(
          'PM_ADMIN_ANSWER',
          `${admin} does not say what is loaded; --admin takes the address that serve prints as Admin`,
        );
      }
      if (json) writeJson(io, answer);
      else io.out(`${listText(fieldsOf(answer)).join('\n')}\n`);
    });
}

function listText(status: Readonly<Record<string, unknown>>): string[] {
  const rows = pluginRows(status);
  const loaded =
    rows.length === 0
      ? ['no plugins are listed; the built-in policies serve']
      : [textTable(['plugin', 'version', 'type', 'roles', 'generation', 'state', 'breaker'], rows)];
  return [...loaded, '', ...generationText(status), ...reloadText(status), ...refusedText(status)];
}

/** One row per type. */
function pluginRows(status: Readonly<Record<string, unknown>>): string[][] {
  const state = status.probation === null ? 'serving' : 'on probation';
  const guards = listOf(status.roles).flatMap((role) => {
    const { containment, hints, policy, role: name } = fieldsOf(role);
    return listOf(containment).map((guard) => ({ ...fieldsOf(guard), role: name, policy, hints }));
  });
  return listOf(status.plugins).flatMap((one) => {
    const { plugin, version, generation, types } = fieldsOf(one);
    const head = [textOf(plugin), textOf(version)];
    const tail = [textOf(generation), state];
    const own = listOf(types).map(fieldsOf);
    if (own.length === 0) return [[...head, '', '', ...tail, '']];
    return own.map(({ classifies, roles, type }) => {
      const breakers = guards.filter((guard) => runsType(guard, textOf(type))).map(breakerText);
      return [
        ...head,
        textOf(type),
        classifies === true ? 'classifier' : listOf(roles).map(textOf).join(', ') || 'not used',
        ...tail,
        [...new Set(breakers)].join(', ') || 'ok',
      ];
    });
  });
}

/** A guard names an instance; its role says which type that is. */
function runsType(guard: Readonly<Record<string, unknown>>, type: string): boolean {
  if (guard.part === 'classifier') return guard.plugin === type;
  if (guard.part === 'selection') return textOf(fieldsOf(guard.policy).type) === type;
  return listOf(guard.hints).some((hint) => {
    const { name, type: hintType } = fieldsOf(hint);
    return name === guard.plugin && hintType === type;
  });
}

function breakerText(guard: Readonly<Record<string, unknown>>): string {
  const { failures, overruns, role, state, trips } = guard;
  if (state === 'ok' && failures === 0 && overruns === 0 && trips === 0) return 'ok';
  const where = role === null ? '' : `${textOf(role)}: `;
  return `${where}${textOf(state)} (${textOf(failures)} failures, ${textOf(overruns)} overruns, ${textOf(trips)} trips)`;
}

function generationText(status: Readonly<Record<string, unknown>>): string[] {
  const lines = [`generation ${textOf(status.generation)} serves`];
  if (status.other !== null) {
    const { bookings, generation, state } = fieldsOf(status.other);
    const what = state === 'standby' ? 'stands by to be rolled back to' : 'drains';
    lines.push(`generation ${textOf(generation)} ${what}, ${textOf(bookings)} bookings are left`);
  }
  if (status.probation !== null) {
    const { calls, endsInMs } = fieldsOf(status.probation);
    const seconds = Math.ceil(Number(textOf(endsInMs)) / 1000);
    lines.push(
      `on probation for another ${seconds} s or until each new plugin made 200 calls (so far ${textOf(calls)})`,
    );
  }
  return lines;
}

function reloadText({ reload }: Readonly<Record<string, unknown>>): string[] {
  if (reload === null) return ['no reload yet'];
  const { problems, result, trigger, warnings } = fieldsOf(reload);
  const by = { file: 'a changed file', signal: 'SIGHUP', command: 'a command' }[textOf(trigger)] ?? '';
  return [
    `latest reload, by ${by}: ${textOf(result).replace('_', ' ')}`,
    ...listOf(problems).map((one) => `  ${textOf(one)}`),
    ...listOf(warnings).map((one) => `  warning: ${textOf(one)}`),
  ];
}

function refusedText({ refused }: Readonly<Record<string, unknown>>): string[] {
  return listOf(refused).map((one) => {
    const { plugin, reason, version } = fieldsOf(one);
    const what = plugin === null ? 'these settings' : `${textOf(plugin)} ${textOf(version)}`;
    return `not tried again until it changes: ${what} (${textOf(reason)})`;
  });
}
