// The rules of docs/architecture.md as functions: which room may import which, how large a file may be, what must be documented.
// check-architecture.mjs runs them; its test gives them small trees.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import ts from 'typescript';

const MAX_LINES = 350;
/** A test file may hold more: its cases share a fixture, and each stands alone. */
const MAX_TEST_LINES = 500;
/** Tables of rows, one section per room: as long as the program is wide. */
const TABLES = new Set(['src/plugin/error-codes.ts', 'src/observe/metric-table.ts']);
const VAGUE_FOLDERS = new Set(['utils', 'util', 'helpers', 'helper', 'common', 'misc']);
const CODE = /\.(?:ts|mjs)$/;
const SKIPPED = new Set(['node_modules', 'fixtures', 'dist', '.bench']);

/** Rooms whose every exported declaration needs a doc comment. */
/** Loads the test kit at run time to hand it to plugins, which is no dependency: the kit drives the program, not the other way round. */
const HANDED_OVER = 'src/cli/plugin-modules.ts';
const DOCUMENTED = ['plugin', 'testing'];

/**
 * The arrow table of the page: room to the rooms it may import, or null for everything.
 * @param {string} markdown
 * @returns {Map<string, Set<string> | null>}
 */
export function readArrows(markdown) {
  const at = markdown.search(/^\| room\s*\| may import/m);
  if (at < 0) throw new Error('docs/architecture.md has no table that starts with "| room | may import |"');
  const arrows = new Map();
  for (const line of markdown.slice(at).split('\n').slice(2)) {
    if (!line.startsWith('|')) break;
    const [rooms = '', targets = ''] = line
      .split('|')
      .slice(1)
      .map((cell) => cell.trim());
    // A remark in brackets limits an arrow for readers; a dash is no arrow at all.
    const names = targets.split(',').map((name) => name.replace(/\(.*\)/, '').trim());
    const allowed = targets === 'everything' ? null : new Set(names.filter((name) => /^[a-z]/.test(name)));
    for (const room of rooms.split(',')) arrows.set(room.trim(), allowed);
  }
  return arrows;
}

/**
 * All problems of the tree at `root`, as `file:line: text`.
 * @param {string} root
 * @returns {string[]}
 */
export function checkArchitecture(root) {
  const problems = [];
  const arrows = readArrows(readFileSync(join(root, 'docs/architecture.md'), 'utf8'));
  const used = new Map();
  for (const folder of ['src', 'tests', 'bench', 'scripts']) {
    for (const path of filesBelow(join(root, folder), problems, root)) {
      const file = relative(root, path).split(sep).join('/');
      const text = readFileSync(path, 'utf8');
      const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
      const most = file.endsWith('.test.ts') ? MAX_TEST_LINES : MAX_LINES;
      if (lines > most && !file.endsWith('.generated.ts') && !TABLES.has(file)) {
        problems.push(`${file}:${most + 1}: has ${lines} lines, at most ${most}; split it by responsibility`);
      }
      if (file.startsWith('src/')) checkRoom(file, arrows, problems);
      checkImports(root, file, text, arrows, used, problems);
      checkExports(file, text, problems);
    }
  }
  for (const cycle of cycles(used))
    problems.push(`src: rooms import each other in a circle: ${cycle.join(' -> ')}`);
  return problems;
}

function filesBelow(folder, problems, root) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) return CODE.test(entry.name) ? [path] : [];
    if (SKIPPED.has(entry.name)) return [];
    if (VAGUE_FOLDERS.has(entry.name)) {
      problems.push(
        `${relative(root, path)}: a folder named ${entry.name} says nothing; put things where their noun lives`,
      );
    }
    return filesBelow(path, problems, root);
  });
}

function checkRoom(file, arrows, problems) {
  const room = roomOf(file);
  if (room === null) {
    if (file !== 'src/index.ts') problems.push(`${file}:1: stands outside every room`);
  } else if (room !== 'plugin' && !arrows.has(room)) {
    problems.push(`${file}:1: room ${room} is not in the arrow table of docs/architecture.md`);
  }
}

function checkImports(root, file, text, arrows, used, problems) {
  const from = roomOf(file);
  const isTest = file.endsWith('.test.ts');
  for (const { fileName, pos } of ts.preProcessFile(text, true, true).importedFiles) {
    const refuse = (why) => problems.push(`${file}:${lineAt(text, pos)}: imports ${fileName}: ${why}`);
    if (!fileName.startsWith('.')) {
      if (from === 'plugin' && !isTest) refuse('the plugin contract imports nothing, packages included');
      continue;
    }
    const target = relative(root, resolve(root, file, '..', fileName))
      .split(sep)
      .join('/');
    const to = roomOf(target);
    if (to === null || to === from) continue;
    // The program itself has no index: nothing imports it, except tests that run it.
    const reaches = file.startsWith('bench/') || (file.startsWith('tests/') && to === 'cli');
    if (target !== `src/${to}/index.ts` && !reaches) {
      refuse(`other rooms import only src/${to}/index.ts`);
      continue;
    }
    // Tests across rooms, benchmarks and the package's entry may use any room; tests of a room also the public test kit.
    if (from === null || to === 'plugin' || (isTest && to === 'testing')) continue;
    const allowed = arrows.get(from);
    if (from === 'plugin' || (allowed !== undefined && allowed !== null && !allowed.has(to))) {
      refuse(
        `${from} may import ${from === 'plugin' ? 'nothing' : listed(allowed)}; the table is in docs/architecture.md`,
      );
      continue;
    }
    if (isTest || file === HANDED_OVER) continue;
    if (!used.has(from)) used.set(from, new Set());
    used.get(from).add(to);
  }
}

function listed(rooms) {
  return ['plugin', ...rooms].join(', ');
}

/** Room of a path under src/, or null. */
function roomOf(path) {
  return /^src\/([^/]+)\//.exec(path)?.[1] ?? null;
}

function lineAt(text, position) {
  return text.slice(0, position).split('\n').length;
}

/** `export *` in an index, and exported declarations without a doc comment in the public rooms. */
function checkExports(file, text, problems) {
  if (!file.startsWith('src/') || !file.endsWith('.ts') || file.endsWith('.test.ts')) return;
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const documented = DOCUMENTED.includes(roomOf(file) ?? '');
  for (const statement of tree.statements) {
    const line = tree.getLineAndCharacterOfPosition(statement.getStart()).line + 1;
    if (ts.isExportDeclaration(statement) && statement.exportClause === undefined) {
      problems.push(`${file}:${line}: export * hides what a room offers; list the names`);
    }
    if (!documented || !isExported(statement)) continue;
    if (ts.getJSDocCommentsAndTags(statement).length > 0) continue;
    problems.push(`${file}:${line}: ${nameOf(statement)} is public and has no doc comment`);
  }
}

function isExported(statement) {
  return ts.canHaveModifiers(statement)
    ? (ts.getModifiers(statement) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    : false;
}

function nameOf(statement) {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map((declaration) => declaration.name.getText()).join(', ');
  }
  return statement.name?.getText() ?? 'an export';
}

/** Circles in a graph of rooms, each once, starting with its first name in the alphabet. */
function cycles(graph) {
  const found = new Map();
  const visit = (room, path) => {
    const at = path.indexOf(room);
    if (at >= 0) {
      const circle = path.slice(at);
      const first = circle.indexOf([...circle].sort()[0]);
      const turned = [...circle.slice(first), ...circle.slice(0, first)];
      found.set(turned.join(), [...turned, turned[0]]);
      return;
    }
    for (const next of graph.get(room) ?? []) visit(next, [...path, room]);
  };
  for (const room of graph.keys()) visit(room, []);
  return [...found.values()];
}
