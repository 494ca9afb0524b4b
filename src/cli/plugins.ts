// `pointsman plugins`: what plugin authors and operators do with plugins. Each sub-command is a file of its own.
import type { Command } from 'commander';
import type { CliIo } from './output.ts';
import { registerList } from './plugins-list.ts';
import { registerNew } from './plugins-new.ts';
import { registerReload } from './plugins-reload.ts';
import { registerTest } from './plugins-test.ts';
import { registerTypes } from './plugins-types.ts';

/** Adds the command with its sub-commands. */
export function register(program: Command, io: CliIo): void {
  const group = program
    .command('plugins')
    .description('write, test, list and reload plugins')
    .helpCommand(false)
    .addHelpText(
      'after',
      `
Each has --help with more, and --json.

Examples:
  $ pointsman plugins new hint-policy harness_prefetch
  $ pointsman plugins test harness_prefetch
  $ pointsman plugins list
  $ pointsman plugins reload`,
    );
  for (const add of [registerNew, registerTest, registerTypes, registerList, registerReload]) add(group, io);
  for (const command of group.commands) {
    command.showHelpAfterError(`pointsman plugins ${command.name()} --help lists arguments and options`);
  }
}
