// When a long-running command should end: SIGTERM or SIGINT (a second one ends the process at once, exit 1), or, where asked
// for, when standard input closes because the parent is gone.

/** Why it ends. */
export type StopReason = 'signal' | 'parent';

/** A wait for the end. */
export interface StopSignal {
  readonly reason: Promise<StopReason>;
  /** Stops listening. */
  dispose(): void;
}

/** Listens from now on. */
export function stopSignal(options: { readonly exitWithParent: boolean }): StopSignal {
  let settle: (reason: StopReason) => void = () => undefined;
  let stopping = false;
  const reason = new Promise<StopReason>((resolve) => {
    settle = resolve;
  });
  const onSignal = (): void => {
    if (stopping) process.exit(1);
    stopping = true;
    settle('signal');
  };
  const onParentGone = (): void => settle('parent');
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  if (options.exitWithParent) {
    process.stdin.on('end', onParentGone).on('close', onParentGone).on('error', onParentGone);
    process.stdin.resume();
  }
  return {
    reason,
    dispose() {
      process.off('SIGTERM', onSignal);
      process.off('SIGINT', onSignal);
      if (!options.exitWithParent) return;
      process.stdin.off('end', onParentGone).off('close', onParentGone).off('error', onParentGone);
      process.stdin.pause();
    },
  };
}
