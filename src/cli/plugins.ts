// `pointsman plugins …`: the group; each of its commands is a file of its own.
import type { Command } from 'commander';
import type { CliIo } from './output.ts';
import { registerList } from './plugins-list.ts';
import { registerReload } from './plugins-reload.ts';

/** Adds the commands. */
export function register(program: Command, io: CliIo): void {
  const group = program
    .command('plugins')
    .description('plugins of a running router: what is loaded, and reloading it')
    .helpCommand(false)
    .addHelpText(
      'after',
      `
Each has --help, and --json for a machine-readable answer on stdout.

Examples:
  $ pointsman plugins list
  $ pointsman plugins reload --json`,
    );
  registerList(group, io);
  registerReload(group, io);
}
