// Parts of tables made of many runs: which cells are meant, groups of them, means and Markdown. Pure.

/** Whether a cell has all the words of a selection, such as `memory=1/4,policy=release|default`. @throws for a word that is none. */
export function hasWords(only, fields, example, textOf) {
  if (only === undefined) return true;
  return only.split(',').every((word) => {
    const [field, value] = word.split('=');
    if (!fields.includes(field) || !value) {
      throw new Error(`--only takes ${fields.join(', ')}, as in ${example}, not ${word}`);
    }
    return value.split('|').includes(textOf(field));
  });
}

/** Cells with the same key, in the order in which keys appear. */
export function groupsOf(cells, keyOf) {
  const groups = new Map();
  for (const one of cells) {
    const key = JSON.stringify(keyOf(one.cell));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return [...groups.values()];
}

export function mean(numbers) {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}

export function geometricMean(numbers) {
  return Math.exp(mean(numbers.map(Math.log)));
}

/** A table without a final newline. */
export function markdown(heads, rows) {
  const line = (row) => `| ${row.join(' | ')} |`;
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n');
}
