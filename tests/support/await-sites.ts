// A copy of the compiled program in which every await of chosen folders can be watched and stopped at: which there are is read off
// the syntax, so that a new one cannot go unseen.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Name under which the watched program finds its {@link AwaitWatch}. */
const GLOBAL_NAME = '__pointsmanAwaits';

/** What the watched program calls at each await. */
export interface AwaitWatch {
  /** Called with what is awaited; what it returns is awaited instead. */
  at(site: string, awaited: unknown): unknown;
}

/** The copy. */
export interface WatchedProgram {
  /** Every await, as `folder/file.js: awaited expression`, with a number where a file has the same one twice. */
  readonly sites: readonly string[];
  /** Imports a module of the copy, by its path below the compiled program. */
  import<T>(path: string): Promise<T>;
  /** From now on awaits go through this; null = straight on. */
  watch(watch: AwaitWatch | null): void;
  remove(): void;
}

/** Copies the compiled program with the awaits of these files and folders (below it) watched. */
export function watchedProgram(places: readonly string[]): WatchedProgram {
  const home = mkdtempSync(join(tmpdir(), 'pointsman-awaits-'));
  const program = join(home, 'dist');
  cpSync(join(ROOT, 'dist'), program, { recursive: true, filter: (path) => !/\.(map|d\.ts)$/.test(path) });
  cpSync(join(ROOT, 'package.json'), join(home, 'package.json'));
  symlinkSync(join(ROOT, 'node_modules'), join(home, 'node_modules'));
  const sites: string[] = [];
  for (const file of filesOf(program)) {
    // Whoever loads the copy would look for maps, and the lines no longer fit them.
    const compiled = readFileSync(join(program, file), 'utf8').replace(/^\/\/# sourceMappingURL=.*$/m, '');
    const isWatched = places.some((place) => file === place || file.startsWith(`${place}/`));
    const { text, found } = isWatched ? watched(file, compiled) : { text: compiled, found: [] };
    writeFileSync(join(program, file), text);
    sites.push(...found);
  }
  return {
    sites,
    import: (path) => import(join(program, path)),
    watch: (watch) => Reflect.set(globalThis, GLOBAL_NAME, watch ?? undefined),
    remove() {
      Reflect.deleteProperty(globalThis, GLOBAL_NAME);
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function filesOf(program: string): string[] {
  return readdirSync(program, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js'))
    .sort();
}

/** The text with each awaited expression handed through the watch, and the names of them. */
function watched(file: string, text: string): { text: string; found: string[] } {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const changes: { at: number; insert: string }[] = [];
  const found: string[] = [];
  const see = (expression: ts.Expression, call: string): void => {
    const words = expression.getText(source).replace(/\s+/g, ' ').slice(0, 60);
    const same = found.filter((name) => name.replace(/ #\d+$/, '') === `${file}: ${words}`).length;
    const site = same === 0 ? `${file}: ${words}` : `${file}: ${words} #${same + 1}`;
    found.push(site);
    changes.push({ at: expression.getStart(source), insert: `${call}(${JSON.stringify(site)}, (` });
    changes.push({ at: expression.getEnd(), insert: '))' });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isAwaitExpression(node)) see(node.expression, '__at');
    else if (ts.isForOfStatement(node) && node.awaitModifier !== undefined) see(node.expression, '__each');
    ts.forEachChild(node, visit);
  };
  visit(source);
  changes.sort((a, b) => b.at - a.at);
  let out = text;
  for (const { at, insert } of changes) out = out.slice(0, at) + insert + out.slice(at);
  return { text: `${PRELUDE}${out}`, found };
}

const PRELUDE = `const __at = (site, awaited) => globalThis.${GLOBAL_NAME}?.at(site, awaited) ?? awaited;
async function* __each(site, iterable) {
  const iterator = iterable[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await __at(site, iterator.next());
      if (done) return;
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}
`;
