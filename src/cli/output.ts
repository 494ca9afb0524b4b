// What commands write and how a run ends: results on stdout, everything else on stderr, exit codes 0, 1, 2.
import { errorText, exactJsonStringify, PointsmanError } from '../plugin/index.ts';

/** Where a command reads from and writes to; handed in, so that tests can look. */
export interface CliIo {
  /** The command's result. */
  out(text: string): void;
  /** Logs, warnings, errors, progress. */
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether stderr is a terminal that takes colour and progress bars (`NO_COLOR` is respected). */
  readonly fancy: boolean;
  /** Sets the exit code of a run that ends normally; 0 unless called. */
  exit(code: 0 | 1 | 2): void;
}

/**
 * The streams of this process. A reader that went away (`| head`) ends the output quietly; a result that cannot be written (a
 * full disk) is told and makes the exit code 1; a log that cannot be written stops nothing.
 */
export function processIo(): CliIo {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || stream === process.stderr) return;
      process.stderr.write(`error: the output cannot be written: ${error.message}\n`);
      process.once('exit', () => {
        process.exitCode = 1;
      });
    });
  }
  return {
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    env: process.env,
    fancy: process.stderr.isTTY === true && !process.env.NO_COLOR,
    exit: (code) => {
      process.exitCode = code;
    },
  };
}

/** Writes a value as exact JSON with a newline at its end. */
export function writeJson(io: CliIo, value: unknown): void {
  io.out(`${exactJsonStringify(value, 2)}\n`);
}

/** Tells why a command failed and answers the exit code. */
export async function reportFailure(io: CliIo, thrown: unknown): Promise<1 | 2> {
  // Imported here so that help does not wait for the schema libraries.
  const { ConfigError } = await import('../config/index.ts');
  if (thrown instanceof ConfigError) {
    io.err(`${thrown.report({ excerpt: true })}\n`);
    return 2;
  }
  if (!(thrown instanceof PointsmanError)) {
    const stack = thrown instanceof Error ? thrown.stack : undefined;
    io.err(`internal error: ${stack ?? errorText(thrown)}\n`);
    return 1;
  }
  io.err(`error: ${thrown.message} [${thrown.code}]\n`);
  return isUsersMistake(thrown) ? 2 : 1;
}

/** What a start would refuse, whichever command met it. */
function isUsersMistake({ code }: PointsmanError): boolean {
  return (
    code === 'PM_USAGE' ||
    code === 'PM_REPLAY_SETTINGS' ||
    code === 'PM_REPLAY_TRACE' ||
    code === 'PM_SIM_SETTINGS' ||
    code.startsWith('PM_CONFIG_') ||
    code.startsWith('PM_PLUGIN_')
  );
}
