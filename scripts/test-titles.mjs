// The tests of a file as its text names them, without running anything: titles of suites and tests, and the lines they span.
import ts from 'typescript';

const SUITES = new Set(['describe', 'suite']);
const TESTS = new Set(['it', 'test']);

/**
 * Every test of a file. A title that is made of values, as with `each`, matches whatever they may be.
 * @param {string} text
 * @returns {{ matches: (name: string) => boolean, from: number, to: number }[]} names are `suite > test`; lines count from 1
 */
export function testsOf(text) {
  const file = ts.createSourceFile('file.test.ts', text, ts.ScriptTarget.Latest, true);
  const found = [];
  const line = (position) => file.getLineAndCharacterOfPosition(position).line + 1;
  const walk = (node, suites) => {
    let inside = suites;
    // `it.each(rows)` alone is no test; the call of what it returns is.
    const isMaker = ts.isCallExpression(node.parent) && node.parent.expression === node;
    if (ts.isCallExpression(node) && !isMaker) {
      const title = node.arguments[0];
      const kind = title === undefined ? null : calleeOf(node.expression);
      if (kind !== null && SUITES.has(kind.name)) inside = [...suites, patternOf(title, kind.each)];
      else if (kind !== null && TESTS.has(kind.name)) {
        const pattern = new RegExp(`^${[...suites, patternOf(title, kind.each)].join(' > ')}$`, 's');
        found.push({
          matches: (name) => pattern.test(name),
          from: line(node.getStart()),
          to: line(node.getEnd()),
        });
      }
    }
    ts.forEachChild(node, (child) => walk(child, inside));
  };
  ts.forEachChild(file, (child) => walk(child, []));
  return found;
}

/** `it`, `it.each(…)`, `describe.skipIf(…)`: the name, and whether titles hold values. */
function calleeOf(expression) {
  let at = expression;
  let each = false;
  while (!ts.isIdentifier(at)) {
    if (ts.isPropertyAccessExpression(at)) {
      each ||= at.name.text === 'each' || at.name.text === 'for';
      at = at.expression;
    } else if (ts.isCallExpression(at)) at = at.expression;
    else if (ts.isTaggedTemplateExpression(at)) at = at.tag;
    else return null;
  }
  return { name: at.text, each };
}

/** A title as the source of a pattern. */
function patternOf(title, each) {
  const part = (text) => (each ? text.split(/%[sdifjoO#$]|\$[\w.#]+/) : [text]).map(literal).join('.*');
  if (ts.isStringLiteral(title) || ts.isNoSubstitutionTemplateLiteral(title)) return part(title.text);
  if (!ts.isTemplateExpression(title)) return '.*';
  return [title.head, ...title.templateSpans.map((span) => span.literal)]
    .map(({ text }) => part(text))
    .join('.*');
}

/** A pattern that matches a text itself. */
export function literal(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
