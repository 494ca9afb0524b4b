// The list of commands. A command is one file that exports `register`; it is imported only when it runs, so that help and
// unknown names load nothing heavy.
//
// To add one: write `src/cli/NAME.ts` with
//
//   export function register(program: Command, io: CliIo): void {
//     program
//       .command('NAME')
//       .description('the summary below')
//       .argument(...).option(...)
//       .option('--json', 'machine-readable output on stdout')
//       .addHelpText('after', '\nExamples:\n  $ pointsman NAME …\n')
//       .action(async (…) => { … });
//   }
//
// and add a line here. The action writes results with `io.out` or `writeJson`, everything else with `io.err`; it throws a
// PointsmanError to fail (exit 2 for usage, configuration and plugin errors, else 1) and calls `io.exit(1)` when it ran and the
// answer is no.
import type { Command } from 'commander';
import type { CliIo } from './output.ts';

/** What a command's file exports. */
export interface CommandModule {
  /** Adds the command with its options, examples and action. */
  register(program: Command, io: CliIo): void;
}

/** One command. */
export interface CommandEntry {
  readonly name: string;
  /** One line for `pointsman --help`. */
  readonly summary: string;
  load(): Promise<CommandModule>;
}

/** Every command, in the order of the help. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'serve',
    summary: 'run the router; without a configuration, with simulated workers',
    load: () => import('./serve.ts'),
  },
  {
    name: 'check',
    summary: 'validate a configuration or policy file and show what each role resolves to',
    load: () => import('./check.ts'),
  },
  {
    name: 'doctor',
    summary: 'ask every worker whether it does what the router believes',
    load: () => import('./doctor.ts'),
  },
  {
    name: 'explain',
    summary: 'show one decision: candidates, cost terms, hints, prediction against outcome',
    load: () => import('./explain.ts'),
  },
  {
    name: 'replay',
    summary: 'run a trace against simulated engines in virtual time; one column per routing',
    load: () => import('./replay.ts'),
  },
  {
    name: 'plugins',
    summary: 'write, test, list and reload plugins',
    load: () => import('./plugins.ts'),
  },
  {
    name: 'indexer',
    summary: 'run the standalone KV indexer: which workers hold which blocks, over HTTP',
    load: () => import('./indexer.ts'),
  },
  {
    name: 'select-service',
    summary: 'run the selection service: choose and reserve workers over HTTP',
    load: () => import('./select-service.ts'),
  },
  {
    name: 'sim',
    summary: 'run simulated engines: vLLM-shaped HTTP, KV events and hint execution, no GPU',
    load: () => import('./sim.ts'),
  },
];
