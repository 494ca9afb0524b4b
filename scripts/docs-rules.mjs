// What documentation must keep: links that lead somewhere, and tables whose rows are used and whose names exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

const SKIPPED = new Set(['node_modules', 'dist', '.bench', '.git', 'fixtures', 'coverage']);

/**
 * Relative links of every markdown page below `root` that lead nowhere.
 * @param {string} root
 * @returns {string[]}
 */
export function brokenLinks(root) {
  const problems = [];
  for (const path of filesBelow(root, /\.md$/)) {
    const text = readFileSync(path, 'utf8');
    // Code is not prose: a link in it is an example.
    const prose = text.replace(/```[\s\S]*?```/g, blank).replace(/`[^`\n]*`/g, blank);
    for (const match of prose.matchAll(/\]\(([^()\s]+)\)/g)) {
      const [target = '', anchor] = match[1].split('#');
      if (/^[a-z][a-z+.-]*:/i.test(match[1])) continue;
      const line = prose.slice(0, match.index).split('\n').length;
      const where = `${slashed(relative(root, path))}:${line}`;
      const file = target === '' ? path : join(dirname(path), decodeURIComponent(target));
      if (!existsSync(file)) problems.push(`${where}: link to ${match[1]}, which does not exist`);
      else if (anchor && file.endsWith('.md') && !anchors(readFileSync(file, 'utf8')).has(anchor)) {
        problems.push(`${where}: link to ${match[1]}, a heading that does not exist`);
      }
    }
  }
  return problems;
}

/**
 * Pages under docs/ that sources name and that do not exist.
 * @param {string} root
 * @returns {string[]}
 */
export function missingPages(root) {
  const problems = [];
  for (const path of filesBelow(join(root, 'src'), /(?<!\.test|\.generated)\.ts$/)) {
    const file = slashed(relative(root, path));
    for (const [index, line] of readFileSync(path, 'utf8').split('\n').entries()) {
      for (const [page] of line.matchAll(/\bdocs\/[\w/-]+\.md\b/g)) {
        if (!existsSync(join(root, page)))
          problems.push(`${file}:${index + 1}: names ${page}, which does not exist`);
      }
    }
  }
  return problems;
}

/**
 * Rows that nothing uses and names that no row has.
 * @param {string} root
 * @param {{ table: string, names: string[], pattern: RegExp, what: string }} rule `table`: the file with the rows; `pattern`: what a
 * name looks like in code and pages
 * @returns {string[]}
 */
export function tableProblems(root, { table, names, pattern, what }) {
  const known = new Set(names);
  const used = new Set();
  const problems = [];
  const code = filesBelow(join(root, 'src'), /(?<!\.test|\.generated)\.ts$/);
  const pages = [...filesBelow(join(root, 'docs'), /\.md$/), ...filesBelow(join(root, 'src'), /\.md$/)];
  for (const path of [...code, ...pages]) {
    const file = slashed(relative(root, path));
    if (file === table) continue;
    const lines = readFileSync(path, 'utf8').split('\n');
    for (const [index, line] of lines.entries()) {
      for (const [name] of line.matchAll(pattern)) {
        if (file.endsWith('.ts') && !/^\s*(?:\/\/|\*|\/\*)/.test(line)) used.add(name);
        // The start of several names, as in `code.startsWith('PM_CONFIG_')`, is not a name.
        const isPrefix = names.some((row) => row.startsWith(name.endsWith('_') ? name : `${name}_`));
        if (!known.has(name) && !isPrefix)
          problems.push(`${file}:${index + 1}: ${what} ${name} is not in ${table}`);
      }
    }
  }
  for (const name of names)
    if (!used.has(name)) problems.push(`${table}: ${what} ${name} is used nowhere in src`);
  return problems;
}

/** Anchors of a page's headings, as GitHub makes them. */
function anchors(markdown) {
  const found = new Set();
  for (const [, heading] of markdown.replace(/```[\s\S]*?```/g, blank).matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    let name = slug;
    for (let count = 1; found.has(name); count += 1) name = `${slug}-${count}`;
    found.add(name);
  }
  return found;
}

/** Same number of lines, no text. */
function blank(text) {
  return text.replace(/[^\n]/g, ' ');
}

function filesBelow(folder, wanted) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory())
      return SKIPPED.has(entry.name) ? [] : filesBelow(join(folder, entry.name), wanted);
    return entry.isFile() && wanted.test(entry.name) ? [join(folder, entry.name)] : [];
  });
}

function slashed(path) {
  return path.split(sep).join('/');
}
