// Values of options on the command line. What does not fit is told by commander with the option's name in front.
import { InvalidArgumentError } from 'commander';
import { isActionName } from '../simulator/index.ts';

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

/** A share. @throws InvalidArgumentError */
export function share(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('It must be a number from 0 to 1.');
}

/** Collects the hint actions of an option that may be given again, each once. */
export function actionNames(text: string, before: readonly string[] = []): readonly string[] {
  return [...new Set([...before, actionName(text)])];
}

/** Reads the name of a hint action. */
export function actionName(text: string): string {
  if (isActionName(text)) return text;
  throw new InvalidArgumentError('It must be TYPE@VERSION, such as acme.pin@1.0.');
}

/** Reads one of some words. */
export function oneOf<T extends string>(words: readonly T[]): (text: string) => T {
  return (text) => {
    const found = words.find((word) => word === text);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`It must be one of ${words.join(', ')}.`);
  };
}
