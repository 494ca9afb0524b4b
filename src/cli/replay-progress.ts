// A progress bar on stderr, on terminals only.
import type { CliIo } from './output.ts';

const WIDTH = 30;

/** Draws over its own line; does nothing where stderr is no terminal. */
export function replayProgress(io: CliIo): {
  update(run: string, done: number, total: number): void;
  clear(): void;
} {
  let shown = '';
  return {
    update(run, done, total) {
      if (!io.fancy) return;
      const filled = Math.floor((WIDTH * done) / total);
      const text = `${run} ${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${done}/${total}`;
      if (text === shown) return;
      shown = text;
      io.err(`\r\u001b[K${text}`);
    },
    clear() {
      if (shown === '') return;
      shown = '';
      io.err('\r\u001b[K');
    },
  };
}
