// "Did you mean": the valid name closest to what was written.

/** Longer names are compared by their first characters only, so that a hostile name costs little. */
const MAX_COMPARED = 64;

/** Names listed in a message. */
const MAX_LISTED = 20;

/**
 * The candidate with the fewest edits (insert, delete, replace, swap of neighbours) from `name`, or null when none is within
 * a third of its length. Case, `-` and `_` do not count as differences.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | null {
  const wanted = fold(name);
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    const folded = fold(candidate);
    if (Math.abs(folded.length - wanted.length) >= bestDistance) continue;
    const distance = editDistance(wanted, folded);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** ` (did you mean "x"?)`, or an empty string when nothing is near. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const nearest = nearestName(name, candidates);
  return nearest === null ? '' : ` (did you mean "${nearest}"?)`;
}

/** Names for a message, the first 20 of many. */
export function nameList(names: readonly string[]): string {
  const rest = names.length - MAX_LISTED;
  return rest > 0 ? `${names.slice(0, MAX_LISTED).join(', ')} and ${rest} more` : names.join(', ');
}

function fold(name: string): string {
  return name
    .slice(0, MAX_COMPARED)
    .toLowerCase()
    .replace(/[-_\s]/g, '');
}

/** Optimal string alignment distance over three rolling rows. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const replace = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      let cost = Math.min(replace, previous[column]! + 1, current[column - 1]! + 1);
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, beforePrevious[column - 2]! + 1);
      }
      current.push(cost);
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length]!;
}
