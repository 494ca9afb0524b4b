// YAML text to a plain value that keeps its node tree, so that every later problem finds its line and column. Integers beyond
// 2^53 stay exact (bigint), duplicate keys and unknown tags are problems, aliases are followed under a cap.
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { ConfigPath, ConfigProblem } from './types.ts';

/** A value may have this many nodes after its aliases are followed; a bomb has billions. */
const MAX_NODES = 1_000_000;

/** A text that is wrong everywhere is reported this often. */
export const MAX_PROBLEMS = 100;

/** A parsed text. */
export interface YamlDocument {
  /** Plain objects, lists and scalars; null for an empty text. Meaningless when there are problems. */
  readonly value: unknown;
  readonly root: Node | null;
  readonly lines: LineCounter;
  readonly problems: readonly ConfigProblem[];
}

/** Parses one YAML document. Never throws; what is wrong stands in `problems`. */
export function readYaml(text: string): YamlDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    intAsBigInt: true,
    stringKeys: true,
    prettyErrors: false,
    uniqueKeys: false, // quadratic in the library; checked below with a set per mapping
    resolveKnownTags: false,
    logLevel: 'error',
  });
  const syntax = [...document.errors, ...document.warnings]
    .slice(0, MAX_PROBLEMS)
    .map((error): ConfigProblem => {
      const { line, col } = lines.linePos(error.pos[0]);
      const message =
        error.code === 'MULTIPLE_DOCS'
          ? 'not valid YAML: a second document begins here, and a configuration is one document'
          : `not valid YAML: ${lowerFirst(error.message)}`;
      return {
        severity: 'error',
        code: 'PM_CONFIG_SYNTAX',
        path: [],
        anchor: 'value',
        message,
        at: { line, column: col },
      };
    });
  if (syntax.length > 0) return { value: null, root: null, lines, problems: syntax };
  const conversion = new Conversion(lines);
  try {
    const value = document.contents === null ? null : conversion.plain(document.contents, []);
    return { value, root: document.contents, lines, problems: conversion.problems };
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError) && !(thrown instanceof RangeError)) throw thrown;
    const message = thrown instanceof RangeError ? 'nests too deep' : errorText(thrown);
    const problem: ConfigProblem = {
      severity: 'error',
      code: 'PM_CONFIG_SYNTAX',
      path: [],
      anchor: 'value',
      message,
    };
    return { value: null, root: null, lines, problems: [problem] };
  }
}

/** One walk over the node tree in document order. */
class Conversion {
  readonly problems: ConfigProblem[] = [];
  readonly #lines: LineCounter;
  /** Latest node per anchor name; YAML allows a name to be set again. */
  readonly #anchors = new Map<string, Node>();
  readonly #open = new Set<Node>();
  #nodes = 0;

  constructor(lines: LineCounter) {
    this.#lines = lines;
  }

  plain(node: Node, path: ConfigPath): unknown {
    this.#nodes += 1;
    if (this.#nodes > MAX_NODES) {
      throw new PointsmanError(
        'PM_CONFIG_SYNTAX',
        `holds more than ${MAX_NODES} values once its aliases are followed`,
      );
    }
    if (isAlias(node)) return this.#alias(node, path);
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    if (isScalar(node)) return plainScalar(node.value);
    this.#open.add(node);
    const value = isMap(node)
      ? this.#mapping(node.items, path)
      : isSeq(node)
        ? this.#list(node.items, path)
        : null;
    this.#open.delete(node);
    return value;
  }

  #alias(alias: Node & { source: string }, path: ConfigPath): unknown {
    const target = this.#anchors.get(alias.source);
    if (target === undefined) {
      this.#report(alias, path, `alias *${alias.source} names no anchor above it`);
      return null;
    }
    if (this.#open.has(target)) {
      this.#report(alias, path, `alias *${alias.source} stands inside the value it names`);
      return null;
    }
    return this.plain(target, path);
  }

  #list(items: readonly unknown[], path: ConfigPath): unknown[] {
    return items.map((item, index) => (isNode(item) ? this.plain(item, [...path, index]) : null));
  }

  #mapping(pairs: readonly { key: unknown; value: unknown }[], path: ConfigPath): Record<string, unknown> {
    const value: Record<string, unknown> = {};
    const firstOffset = new Map<string, number>();
    for (const pair of pairs) {
      const key = isScalar(pair.key) ? String(pair.key.value) : '';
      const offset = isNode(pair.key) ? (pair.key.range?.[0] ?? 0) : 0;
      const first = firstOffset.get(key);
      if (first !== undefined) {
        const line = this.#lines.linePos(first).line;
        this.#report(pair.key, [...path, key], `duplicate key "${key}", first given on line ${line}`);
        continue;
      }
      firstOffset.set(key, offset);
      if (key === '__proto__') this.#report(pair.key, [...path, key], 'the key "__proto__" is not allowed');
      else value[key] = isNode(pair.value) ? this.plain(pair.value, [...path, key]) : null;
    }
    return value;
  }

  #report(node: unknown, path: ConfigPath, message: string): void {
    if (this.problems.length >= MAX_PROBLEMS) return;
    const { line, col } = this.#lines.linePos(isNode(node) ? (node.range?.[0] ?? 0) : 0);
    const at = { line, column: col };
    this.problems.push({ severity: 'error', code: 'PM_CONFIG_SYNTAX', path, anchor: 'key', message, at });
  }
}

function isNode(value: unknown): value is Node {
  return isScalar(value) || isMap(value) || isSeq(value) || isAlias(value);
}

function plainScalar(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1, 200);
}
