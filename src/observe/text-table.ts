// Aligned columns for terminals: numbers to the right, words to the left, two spaces between.

/** One cell; null is an empty one. */
export type TextCell = string | number | bigint | null;

/** A table of text with a header line; every line is without trailing spaces. */
export function textTable(header: readonly string[], rows: readonly (readonly TextCell[])[]): string {
  const lines = [header, ...rows.map((row) => row.map(cellText))];
  const widths = header.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  const toRight = header.map(
    (_, column) => rows.some((row) => isNumber(row[column])) && rows.every((row) => fits(row[column])),
  );
  return lines
    .map((line) =>
      widths
        .map((width, column) => {
          const cell = line[column] ?? '';
          return toRight[column] ? cell.padStart(width) : cell.padEnd(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function isNumber(cell: TextCell | undefined): boolean {
  return typeof cell === 'number' || typeof cell === 'bigint';
}

function fits(cell: TextCell | undefined): boolean {
  return isNumber(cell) || cell === null || cell === undefined;
}

/** At most four decimals: a cost of 432.1234567 is read, not computed with. */
function cellText(cell: TextCell): string {
  if (cell === null) return '';
  if (typeof cell !== 'number' || Number.isInteger(cell)) return String(cell);
  return String(Number(cell.toFixed(4)));
}
