// Values of options on the command line. What does not fit is told by commander with the option's name in front.
import { InvalidArgumentError } from 'commander';
import { isActionName } from '../simulator/index.ts';

const MOST = Number.MAX_SAFE_INTEGER;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

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

/** Reads a number above 0, or two of them as a fraction: 0.25, 1/4. */
export function share(text: string): number {
  const [, above = '', below = '1'] = /^(\d+(?:\.\d+)?)(?:\/(\d+(?:\.\d+)?))?$/.exec(text) ?? [];
  const value = above === '' ? 0 : Number(above) / Number(below);
  if (value > 0 && value <= MOST) return value;
  throw new InvalidArgumentError('It must be a number above 0 or a fraction, such as 0.25 or 1/4.');
}

/** Reads a number from 0 to 1. @throws InvalidArgumentError */
export function shareOfWhole(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('It must be a number from 0 to 1.');
}

/** Reads a time in ms, s, m or h, as ms. */
export function duration(text: string): number {
  const ms = millisecondsOf(text);
  if (ms !== null) return ms;
  throw new InvalidArgumentError('It must be a time in ms, s, m or h, such as 90s.');
}

/** A time such as 90s or 1.5h in ms; null = it is none. */
export function millisecondsOf(text: string): number | null {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  const factor = UNITS[unit];
  return factor === undefined ? null : Number(number) * factor;
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
