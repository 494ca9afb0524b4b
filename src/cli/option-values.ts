// Numbers on the command line. What does not fit is told by commander with the option's name in front.
import { InvalidArgumentError } from 'commander';

const MOST = Number.MAX_SAFE_INTEGER;

/** Reads a whole number within a closed range. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };
}

/** Reads a number above 0. */
export function positive(text: string): number {
  const value = Number(text);
  if (value > 0 && value <= MOST) return value;
  throw new InvalidArgumentError(`It must be a number above 0, at most ${MOST}.`);
}

/** Reads a number from 0. */
export function notNegative(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= 0 && value <= MOST) return value;
  throw new InvalidArgumentError(`It must be a number from 0 to ${MOST}.`);
}
