// `pointsman plugins new`: a folder with a policy that works, its test, and a configuration that runs it.
import { join } from 'node:path';
import type { Command } from 'commander';
import { writeAuthorTypes } from './author-types.ts';
import { type CliIo, writeJson } from './output.ts';
import { programName } from './program-name.ts';
import { SCAFFOLD_ROLES, writeScaffold } from './scaffold.ts';

/** Adds the sub-command. */
export function registerNew(group: Command, io: CliIo): void {
  group
    .command('new')
    .description('write a new plugin: policy, test, README and a router.yaml that runs it')
    .argument('<role>', SCAFFOLD_ROLES.join(', '))
    .argument('<name>', 'its type in router.yaml: letters, digits, dots, dashes, underscores')
    .option('--folder <dir>', 'where to write it (default: a folder with that name)')
    .option('--json', 'what was written as JSON on stdout')
    .addHelpText(
      'after',
      `
Nothing needs to be installed and no file is ever overwritten.

Examples:
  $ pointsman plugins new hint-policy harness_prefetch
  $ pointsman plugins new worker-selection cheapest --folder policies/cheapest`,
    )
    .action((role: string, name: string, options: { folder?: string; json?: true }) => {
      const folder = options.folder ?? name;
      const files = writeScaffold(role, name, folder);
      const types = writeAuthorTypes(folder);
      const written = [...files, ...types.written];
      const program = programName(io.env);
      const next = [
        `${program} plugins test ${folder}`,
        `${program} check ${join(folder, 'router.yaml')}`,
        `${program} serve --config ${join(folder, 'router.yaml')} --sim-workers 4`,
      ];
      if (options.json) {
        writeJson(io, { role, name, folder, written, next });
        return;
      }
      const shown = written.map((file) => `  ${join(folder, file)}\n`).join('');
      io.out(`wrote\n${shown}\nnext\n${next.map((line) => `  ${line}\n`).join('')}`);
    });
}
