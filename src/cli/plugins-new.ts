// `pointsman plugins new`: a folder with a policy that works, its test, and a configuration that runs it.
import { join } from 'node:path';
import type { Command } from 'commander';
import { didYouMean } from '../config/index.ts';
import { writeAuthorTypes } from './author-types.ts';
import { actionName } from './option-values.ts';
import { type CliIo, writeJson } from './output.ts';
import { programName } from './program-name.ts';
import { isForeignAction, SCAFFOLD_ACTIONS, SCAFFOLD_ROLES, writeScaffold } from './scaffold.ts';

interface NewOptions {
  readonly folder?: string;
  readonly action?: string;
  readonly json?: true;
}

/** Adds the sub-command. */
export function registerNew(group: Command, io: CliIo): void {
  group
    .command('new')
    .description('write a new plugin: policy, test, README and a router.yaml that runs it')
    .argument('<role>', SCAFFOLD_ROLES.join(', '))
    .argument('<name>', 'its type in router.yaml: letters, digits, dots, dashes, underscores')
    .option('--folder <dir>', 'where to write it (default: a folder with that name)')
    .option(
      '--action <type@version>',
      `the KV action a hint-policy sends: ${SCAFFOLD_ACTIONS.join(', ')} or one of your engine (default: ${SCAFFOLD_ACTIONS[0]})`,
      actionName,
    )
    .option('--json', 'what was written as JSON on stdout')
    .addHelpText(
      'after',
      `
Nothing needs to be installed and no file is ever overwritten.

Examples:
  $ pointsman plugins new hint-policy harness_prefetch
  $ pointsman plugins new hint-policy pin_children --action acme.pin@1.0
  $ pointsman plugins new worker-selection cheapest --folder policies/cheapest`,
    )
    .action((role: string, name: string, options: NewOptions) => {
      const { action } = options;
      const folder = options.folder ?? name;
      const files = writeScaffold(role, name, folder, action);
      const types = writeAuthorTypes(folder);
      const written = [...files, ...types.written];
      const program = programName(io.env);
      const isForeign = action !== undefined && isForeignAction(action);
      const told = isForeign ? ` --sim-arg=--accept-action=${action}` : '';
      const next = [
        `${program} plugins test ${folder}`,
        `${program} check ${join(folder, 'router.yaml')}`,
        `${program} serve --config ${join(folder, 'router.yaml')} --sim-workers 4${told}`,
      ];
      const meant = isForeign ? didYouMean(action, SCAFFOLD_ACTIONS) : '';
      if (meant !== '') io.err(`warning: the simulated engine does not know ${action}${meant}\n`);
      if (options.json) {
        writeJson(io, { role, name, ...(action && { action }), folder, written, next });
        return;
      }
      const shown = written.map((file) => `  ${join(folder, file)}\n`).join('');
      io.out(`wrote\n${shown}\nnext\n${next.map((line) => `  ${line}\n`).join('')}`);
    });
}
