// A plugin may start a promise and never look at it again. Should it be rejected, that must not end a router full of streams,
// as Node would by itself.
import { errorText, type Logger } from '../plugin/index.ts';

/** Logs rejections that nobody handles, the 1st, 2nd, 4th, 8th, …; the function returned leaves them to Node again. */
export function containRejections(log: Logger): () => void {
  let rejections = 0;
  const heard = (reason: unknown): void => {
    rejections += 1;
    if ((rejections & (rejections - 1)) !== 0) return;
    log.error('a promise was rejected and nobody had waited for it', {
      error: errorText(reason),
      rejections,
    });
  };
  process.on('unhandledRejection', heard);
  return () => {
    process.off('unhandledRejection', heard);
  };
}
