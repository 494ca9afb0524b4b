/** Arrows of the table in docs/architecture.md; null = everything. */
export function readArrows(markdown: string): Map<string, Set<string> | null>;
/** All problems of the tree at `root`. */
export function checkArchitecture(root: string): string[];
