// Runs tests of a copy of the repository, run after run in one process: only what changed since the last run is read and compiled
// anew. fault-lane.mjs starts it in the folder of the copy, sends `{ tests, changed }` and gets `{ results }`.
import { join } from 'node:path';
import ts from 'typescript';
import { createVitest } from 'vitest/node';
import { literal, testsOf } from './test-titles.mjs';

const folder = process.cwd();

/** How the tests of the run under way went, by file and name; of several with one name the one that fails counts. */
let found = new Map();
/** Why a file could not be run at all, by file. */
let broken = new Map();

const reporter = {
  onTestCaseResult(test) {
    const { state, errors } = test.result();
    const key = keyOf(test.module.relativeModuleId, spoken(test.fullName));
    if ((state !== 'passed' && state !== 'failed') || found.get(key)?.status === 'failed') return;
    found.set(key, { status: state, reason: textOf(errors) });
  },
  onTestModuleEnd(module) {
    const errors = module.errors();
    if (errors.length > 0) broken.set(module.relativeModuleId, textOf(errors));
  },
};

let vitest = null;
const sources = new Map();
let program;

process.on('message', async ({ tests, changed }) => {
  for (const file of changed) {
    sources.delete(join(folder, file));
    vitest?.invalidateFile(join(folder, file));
  }
  try {
    const compiled = tests.filter(({ by }) => by === 'compiler');
    const run = tests.filter(({ by }) => by !== 'compiler');
    const results = [
      ...(compiled.length > 0 ? compile(compiled, changed) : []),
      ...(run.length > 0 ? await runTests(run) : []),
    ];
    process.send({ results });
  } catch (thrown) {
    const reason = textOf([thrown]);
    process.send({ results: tests.map(() => ({ status: 'missing', reason })) });
  }
});

// Whoever asked is gone.
process.on('disconnect', () => process.exit());

async function runTests(tests) {
  vitest ??= await createVitest('test', { root: folder, watch: false, reporters: [reporter] });
  found = new Map();
  broken = new Map();
  const specifications = [...new Set(tests.map(({ file }) => file))].map((file) => {
    const project = vitest.projects.find((one) => one.matchesTestGlob(join(folder, file)));
    const ofFile = tests.filter((test) => test.file === file);
    const names = [...new Set(ofFile.map(({ name }) => literal(spoken(name))))];
    return project.createSpecification(join(folder, file), {
      testNamePattern: new RegExp(`^(?:${names.join('|')})$`),
    });
  });
  const { unhandledErrors } = await vitest.runTestSpecifications(specifications);
  return tests.map(({ file, name }) => {
    const known = found.get(keyOf(file, spoken(name)));
    if (known !== undefined) return known;
    const why = broken.get(file) ?? textOf(unhandledErrors);
    return missing(why || 'no test has that name, or it is skipped');
  });
}

/** Checks the files of tests: one that contains an error fails. */
function compile(tests, changed) {
  const { options } = ts.getParsedCommandLineOfConfigFile(
    join(folder, 'tsconfig.json'),
    { noEmit: true },
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => undefined },
  );
  const host = ts.createCompilerHost(options);
  const { getSourceFile } = host;
  host.getSourceFile = (path, ...rest) => {
    if (!sources.has(path)) sources.set(path, getSourceFile(path, ...rest));
    return sources.get(path);
  };
  const files = [...new Set(tests.map(({ file }) => file))];
  program = ts.createProgram({
    rootNames: files.map((file) => join(folder, file)),
    options,
    host,
    oldProgram: program,
  });
  const unread = program
    .getSyntacticDiagnostics()
    .filter(({ file }) => changed.some((path) => join(folder, path) === file?.fileName));
  return tests.map(({ file, name }) => {
    const source = program.getSourceFile(join(folder, file));
    const named = source && testsOf(source.text).find((one) => one.matches(name));
    if (unread.length > 0 || !named)
      return missing(unread[0] ? messageOf(unread[0]) : 'no test has that name');
    const error = program.getSemanticDiagnostics(source).find(({ start }) => {
      const line = source.getLineAndCharacterOfPosition(start).line + 1;
      return line >= named.from && line <= named.to;
    });
    return error === undefined
      ? { status: 'passed', reason: '' }
      : { status: 'failed', reason: messageOf(error) };
  });
}

function missing(reason) {
  return { status: 'missing', reason };
}

/** A name as vitest matches it. */
function spoken(name) {
  return name.split(' > ').join(' ');
}

function keyOf(file, name) {
  return `${file}: ${name}`;
}

function textOf(errors) {
  return (errors ?? []).map(({ stack, message }) => stack || message || '').join('\n');
}

function messageOf({ messageText }) {
  return ts.flattenDiagnosticMessageText(messageText, '\n');
}
