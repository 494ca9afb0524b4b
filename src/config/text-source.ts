// Where problems point: turns a path into the line and column of its node, and renders a problem with an excerpt and a caret.
import { isMap, isScalar, isSeq, type LineCounter, type Node, type Pair } from 'yaml';
import type { ConfigPath, ConfigProblem, ConfigSource, ProblemAnchor } from './types.ts';
import type { YamlDocument } from './yaml-document.ts';

/** Characters of a long line shown on either side of the caret. */
const EXCERPT_REACH = 60;

/** Keys whose plain values are blotted out of excerpts: somebody may have written the secret itself. */
const SECRET_KEYS: ReadonlySet<string> = new Set(['token', 'sha256']);

/** A configuration text with its node tree. */
export class TextSource implements ConfigSource {
  readonly file: string;
  readonly folder: string;
  readonly #root: Node | null;
  readonly #lines: LineCounter | null;
  readonly #shown: readonly string[];

  constructor(file: string, folder: string, text: string, document: YamlDocument | null) {
    this.file = file;
    this.folder = folder;
    this.#root = document?.root ?? null;
    // In an empty text there is nothing to point at.
    this.#lines = text === '' ? null : (document?.lines ?? null);
    this.#shown = withoutSecrets(text, this.#root).split('\n');
  }

  render(problem: ConfigProblem, options: { readonly excerpt?: boolean } = {}): string {
    const at = this.locate(problem);
    const where = at === null ? this.file : `${this.file}:${at.line}:${at.column}`;
    const path = renderPath(problem.path);
    const sentence = `${where}: ${path === '' ? '' : `${path}: `}${problem.message}`;
    if (options.excerpt !== true || at === null) return sentence;
    return `${sentence}\n${excerpt(this.#shown[at.line - 1] ?? '', at.line, at.column)}`;
  }

  /** The problems as they stand in the file, from its top. */
  inOrder(problems: readonly ConfigProblem[]): ConfigProblem[] {
    const places = problems.map((problem) => ({
      problem,
      at: this.locate(problem) ?? { line: 0, column: 0 },
    }));
    places.sort((a, b) => a.at.line - b.at.line || a.at.column - b.at.column);
    return places.map(({ problem }) => problem);
  }

  locate(problem: ConfigProblem): { readonly line: number; readonly column: number } | null {
    return problem.at ?? this.#position(problem.path, problem.anchor);
  }

  /** How many steps of a path exist in this text. */
  depth(path: ConfigPath): number {
    let node: unknown = this.#root;
    for (const [steps, step] of path.entries()) {
      const next = child(node, step);
      if (next === null) return steps;
      node = next.value;
    }
    return path.length;
  }

  /** Position of a path's node; of the nearest parent that exists when the path does not. */
  #position(path: ConfigPath, anchor: ProblemAnchor): { line: number; column: number } | null {
    if (this.#lines === null) return null;
    let node: unknown = this.#root;
    let key: unknown = null;
    for (const step of path) {
      const next = child(node, step);
      // A missing key points at the key of the mapping that lacks it.
      if (next === null) return this.#at(key ?? node);
      key = next.key;
      node = next.value;
    }
    return this.#at(anchor === 'key' || emptyNode(node) ? (key ?? node) : node);
  }

  #at(node: unknown): { line: number; column: number } {
    const range = typeof node === 'object' && node !== null && 'range' in node ? (node as Node).range : null;
    const { line, col } = this.#lines?.linePos(range?.[0] ?? 0) ?? { line: 1, col: 1 };
    return { line: Math.max(1, line), column: Math.max(1, col) };
  }
}

/** `worker_selection.decode.hints[0].type`; names that are not plain words are quoted in brackets. */
export function renderPath(path: ConfigPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!/^[A-Za-z0-9_~-]+$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

function child(node: unknown, step: string | number): { key: unknown; value: unknown } | null {
  if (isSeq(node) && typeof step === 'number' && step < node.items.length) {
    return { key: node.items[step], value: node.items[step] };
  }
  if (!isMap(node)) return null;
  const pair = node.items.find((item: Pair) => isScalar(item.key) && String(item.key.value) === String(step));
  return pair === undefined ? null : { key: pair.key, value: pair.value };
}

function emptyNode(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

function excerpt(line: string, number: number, column: number): string {
  const text = line.replace(/\r$/, '');
  const from = Math.max(0, column - 1 - EXCERPT_REACH);
  const shown = text.slice(from, column - 1 + EXCERPT_REACH);
  // Tabs are kept below tabs, so that the caret stands where it should in any terminal.
  const indent = text.slice(from, column - 1).replace(/[^\t]/g, ' ');
  const margin = String(number).padStart(4);
  return `${margin} | ${shown}\n${' '.repeat(margin.length)} | ${indent}^`;
}

/** The text with plain values of secret keys replaced by asterisks of the same length. */
function withoutSecrets(text: string, root: Node | null): string {
  const ranges: [number, number][] = [];
  const visit = (node: unknown, depth: number): void => {
    if (depth > 8) return;
    if (isSeq(node)) for (const item of node.items) visit(item, depth + 1);
    if (!isMap(node)) return;
    for (const pair of node.items) {
      const secret = isScalar(pair.key) && SECRET_KEYS.has(String(pair.key.value));
      if (secret && isScalar(pair.value) && pair.value.range) {
        ranges.push([pair.value.range[0], pair.value.range[1]]);
      } else visit(pair.value, depth + 1);
    }
  };
  visit(root, 0);
  let shown = '';
  let from = 0;
  for (const [start, end] of ranges) {
    shown += text.slice(from, start) + text.slice(start, end).replace(/[^\n]/g, '*');
    from = end;
  }
  return shown + text.slice(from);
}
