/** Relative links that lead nowhere. */
export function brokenLinks(root: string): string[];
/** Pages under docs/ that sources name and that do not exist. */
export function missingPages(root: string): string[];
/** Rows that nothing uses and names that no row has. */
export function tableProblems(
  root: string,
  rule: { table: string; names: string[]; pattern: RegExp; what: string },
): string[];
