// Runs one command line: finds the command, loads only its file, maps what happens to an exit code.
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { PointsmanError } from '../plugin/index.ts';
import { COMMANDS, type CommandEntry } from './commands.ts';
import { type CliIo, reportFailure } from './output.ts';

/** Runs `pointsman ARGS…`; answers the exit code. Never rejects. */
export async function runCli(
  args: readonly string[],
  io: CliIo,
  commands: readonly CommandEntry[] = COMMANDS,
): Promise<0 | 1 | 2> {
  let code: 0 | 1 | 2 = 0;
  const observed: CliIo = {
    ...io,
    exit: (wanted) => {
      code = wanted;
    },
  };
  try {
    const program = await buildProgram(args, observed, commands);
    await program.parseAsync(helpRequest(args), { from: 'user' });
    return code;
  } catch (thrown) {
    // Commander has written its own message by then; it exits 1 on usage errors, where this program's word is 2.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2;
    return reportFailure(io, thrown);
  }
}

/** The program with the wanted command in full, or with all as bare names for the help. */
async function buildProgram(
  args: readonly string[],
  io: CliIo,
  commands: readonly CommandEntry[],
): Promise<Command> {
  const program = new Command('pointsman')
    .description('KV-cache-aware router for LLM inference')
    .version(packageVersion(), '-V, --version')
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text) })
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nEvery command has --help with examples. Exit codes: 0 success, 1 the answer is no, 2 usage or configuration.',
    );
  const [first] = helpRequest(args);
  const wanted = commands.find((command) => command.name === first);
  if (wanted !== undefined) {
    const { register } = await wanted.load();
    register(program, io);
    const pointer = `pointsman ${wanted.name} --help lists arguments and options`;
    for (const command of program.commands) command.showHelpAfterError(pointer);
    return program;
  }
  if (first !== undefined && !first.startsWith('-')) {
    const { didYouMean } = await import('../config/index.ts');
    const names = commands.map((command) => command.name);
    const known = didYouMean(first, names) || `; known: ${names.join(', ')}`;
    throw new PointsmanError('PM_USAGE', `unknown command "${first.slice(0, 64)}"${known}`);
  }
  for (const { name, summary } of commands) program.command(name).description(summary);
  // Without a command the help is the answer, but not what was asked for.
  program.action(() => program.help({ error: true }));
  return program;
}

/** `help` and `help NAME` as the flags they stand for. */
function helpRequest(args: readonly string[]): string[] {
  return args[0] === 'help' ? [...args.slice(1, 2), '--help'] : [...args];
}

function packageVersion(): string {
  // Two folders up both from src/cli and from dist/cli.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const parsed: unknown = JSON.parse(text);
  return typeof parsed === 'object' && parsed !== null && 'version' in parsed
    ? String(parsed.version)
    : 'unknown';
}
