// `pointsman plugins types`: the contract's types for an editor and tsc, in a folder where nothing is installed.
import type { Command } from 'commander';
import { writeAuthorTypes } from './author-types.ts';
import { type CliIo, writeJson } from './output.ts';

/** Adds the sub-command. */
export function registerTypes(group: Command, io: CliIo): void {
  group
    .command('types')
    .description(
      'write the types of pointsman/plugin, pointsman/testing and zod into a folder, for editors and tsc',
    )
    .argument('[folder]', 'folder of the plugins', '.')
    .option('--json', 'what was written as JSON on stdout')
    .addHelpText(
      'after',
      `
Writes .pointsman/, anew each time: run it again after an upgrade, and keep it out of git. A tsconfig.json is written only where
there is none; your own needs "extends": "./.pointsman/tsconfig.json".

Examples:
  $ pointsman plugins types
  $ pointsman plugins types policies`,
    )
    .action((folder: string, options: { json?: true }) => {
      const { connected, copied, written } = writeAuthorTypes(folder);
      if (options.json) {
        writeJson(io, { folder, written, declarations: copied, connected });
        return;
      }
      io.out(`wrote ${written.join(' and ')} in ${folder}, ${copied} declaration files\n`);
      if (!connected) {
        io.err(
          'warning: tsconfig.json does not use them; add "extends": "./.pointsman/tsconfig.json" to it\n',
        );
      }
    });
}
