// Durations (`500ms`, `30s`, `2m`) and sizes (`64KiB`, `256MiB`, or plain bytes) as the configuration file writes them.

/** Milliseconds per unit. */
const DURATION_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Bytes per unit. Decimal units (kB, MB) are refused rather than guessed at. */
const SIZE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** What a duration looks like, for error texts. */
export const DURATION_FORM = 'a duration such as 500ms, 30s or 2m';

/** What a size looks like, for error texts. */
export const SIZE_FORM = 'a size such as 64KiB, 256MiB or a number of bytes';

/** Milliseconds of `1.5s`, `500ms`, `2m`, `1h`; null for anything else, a number without unit included. */
export function parseDuration(text: string): number | null {
  return scaled(text, DURATION_UNITS);
}

/** Whole bytes of `64KiB`, `1.5GiB`, `100B`, or a plain whole number; null for anything else. */
export function parseSize(value: string | number): number | null {
  const bytes = typeof value === 'number' ? value : scaled(value, SIZE_UNITS);
  return bytes !== null && Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : null;
}

/** Shortest exact text of a duration, in the form {@link parseDuration} reads. */
export function formatDuration(ms: number): string {
  return shortest(ms, DURATION_UNITS);
}

/** Shortest exact text of a size, in the form {@link parseSize} reads. */
export function formatSize(bytes: number): string {
  return shortest(bytes, SIZE_UNITS);
}

function scaled(text: string, units: Readonly<Record<string, number>>): number | null {
  const match = /^(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]+)$/.exec(text.trim());
  const factor = match && Object.hasOwn(units, match[2]!) ? units[match[2]!] : undefined;
  if (!match || factor === undefined) return null;
  const value = Number(match[1]) * factor;
  return value <= Number.MAX_SAFE_INTEGER ? value : null;
}

function shortest(value: number, units: Readonly<Record<string, number>>): string {
  let text = '';
  // Units stand in ascending order: the last one that divides the value is the largest.
  for (const [unit, factor] of Object.entries(units)) {
    if (text === '' || value % factor === 0) text = `${value / factor}${unit}`;
    if (value === 0) break;
  }
  return text;
}
