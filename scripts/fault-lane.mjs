// One copy of the repository in a temporary folder, in which faults are planted and tests run. Nothing outside of it is written.
import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { literal, testsOf } from './test-titles.mjs';

const LEFT_OUT = new Set(['node_modules', 'dist', '.git', '.bench', 'coverage']);
/** A test that waits for ever is ended by vitest and fails; what vitest cannot end, such as an endless loop, is killed after this. */
const RUN_LIMIT_MS = 150_000;
/** Each further file of one run gets this much more. */
const FILE_LIMIT_MS = 30_000;

/** How one test went. `missing`: it did not run; `reason` says why, in the words of whoever knows. */
const missing = (reason) => ({ status: 'missing', reason });

/** The copy. */
export class FaultLane {
  folder;
  #children = new Set();
  #built = false;
  #runs = 0;

  /** @param {string} root the repository */
  constructor(root) {
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), 'pointsman-faults-')));
    const wanted = (path) => path === root || !LEFT_OUT.has(basename(path));
    cpSync(root, this.folder, { recursive: true, filter: wanted });
    symlinkSync(realpathSync(join(root, 'node_modules')), join(this.folder, 'node_modules'));
    mkdirSync(join(this.folder, '.reports'));
  }

  /** Ends what runs and removes the copy. */
  close() {
    for (const child of this.#children) endGroup(child);
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Plants a fault; the function returned takes it out again. */
  plant({ file, text, instead }) {
    const path = join(this.folder, file);
    const before = readFileSync(path, 'utf8');
    writeFileSync(
      path,
      before.replace(text, () => instead),
    );
    return () => writeFileSync(path, before);
  }

  /**
   * Runs tests and says how each went.
   * @param {readonly { file: string, name: string, by?: string }[]} tests
   * @returns {Promise<Map<string, { status: 'passed' | 'failed' | 'missing', reason: string }>>} by `file: name`
   */
  async run(tests) {
    const results = new Map();
    const compiled = tests.filter(({ by }) => by === 'compiler');
    const run = tests.filter(({ by }) => by !== 'compiler');
    if (compiled.length > 0) await this.#compile(compiled, results);
    if (run.length > 0) await this.#vitest(run, results);
    return results;
  }

  async #vitest(tests, results) {
    if (tests.some(({ by }) => by === 'process')) {
      const refused = await this.#build();
      if (refused !== null) {
        for (const test of tests)
          results.set(keyOf(test), missing(`the program does not compile: ${refused}`));
        return;
      }
    }
    this.#runs += 1;
    const report = join(this.folder, '.reports', `${this.#runs}.json`);
    const names = [...new Set(tests.map(({ name }) => literal(spoken(name))))];
    const files = new Set(tests.map(({ file }) => file));
    const limitMs = RUN_LIMIT_MS + (files.size - 1) * FILE_LIMIT_MS;
    const { output, killed } = await this.#node(
      [
        'node_modules/vitest/vitest.mjs',
        'run',
        ...files,
        ...['--testNamePattern', `^(?:${names.join('|')})$`],
        ...['--reporter=json', `--outputFile=${report}`],
      ],
      limitMs,
    );
    const found = new Map();
    const broken = new Map();
    if (existsSync(report)) {
      const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
      rmSync(report);
      for (const { name, message, assertionResults } of testResults) {
        const file = name.startsWith(this.folder) ? name.slice(this.folder.length + 1) : name;
        if (message) broken.set(file, message);
        for (const one of assertionResults) {
          if (one.status !== 'passed' && one.status !== 'failed') continue;
          const key = `${file}: ${one.fullName}`;
          // Of several tests with one name the one that fails counts.
          if (found.get(key)?.status === 'failed') continue;
          found.set(key, { status: one.status, reason: (one.failureMessages ?? [])[0] ?? '' });
        }
      }
    }
    for (const test of tests) {
      const why = killed
        ? `it was ended after ${limitMs / 1000} s, as vitest could not end it`
        : (broken.get(test.file) ?? lastLines(output));
      results.set(
        keyOf(test),
        found.get(`${test.file}: ${spoken(test.name)}`) ??
          missing(why || 'no test has that name, or it is skipped'),
      );
    }
  }

  /** Compiles the files of tests: one that contains an error fails. */
  async #compile(tests, results) {
    const config = join(this.folder, 'tsconfig.faults.json');
    const files = [...new Set(tests.map(({ file }) => file))];
    writeFileSync(config, JSON.stringify({ extends: './tsconfig.json', include: files }));
    const { output } = await this.#node([
      'node_modules/typescript/bin/tsc',
      '-p',
      config,
      '--pretty',
      'false',
    ]);
    const errors = [...output.matchAll(/^(\S+?)\((\d+),\d+\): error (.*)$/gm)];
    for (const test of tests) {
      const text = readFileSync(join(this.folder, test.file), 'utf8');
      const named = testsOf(text).find((one) => one.matches(test.name));
      const error = errors.find(
        ([, file, line]) => file === test.file && named && line >= named.from && line <= named.to,
      );
      const all = errors.length > 0 || output.trim() === '' ? null : lastLines(output);
      if (named === undefined || all !== null)
        results.set(keyOf(test), missing(all ?? 'no test has that name'));
      else
        results.set(keyOf(test), {
          status: error === undefined ? 'passed' : 'failed',
          reason: error?.[3] ?? '',
        });
    }
  }

  /** Builds the program, only what changed after the first time; answers what the compiler refuses. */
  async #build() {
    const { code, output } = await this.#node(['scripts/build.mjs', ...(this.#built ? ['--if-stale'] : [])]);
    this.#built ||= code === 0;
    return code === 0 ? null : lastLines(output);
  }

  /** Takes over what another lane has built. */
  takeBuild(other) {
    if (!other.#built) return;
    const options = { recursive: true, preserveTimestamps: true };
    cpSync(join(other.folder, 'dist'), join(this.folder, 'dist'), options);
    this.#built = true;
  }

  #node(args, limitMs = RUN_LIMIT_MS) {
    return new Promise((resolve) => {
      const child = spawn(process.execPath, args, {
        cwd: this.folder,
        stdio: ['ignore', 'pipe', 'pipe'],
        // Of its own group, so that what it started ends with it.
        detached: true,
        env: { ...process.env, NO_COLOR: '1', CI: 'true' },
      });
      this.#children.add(child);
      let output = '';
      let killed = false;
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8');
        stream.on('data', (chunk) => {
          output = (output + chunk).slice(-20_000);
        });
      }
      const timer = setTimeout(() => {
        killed = true;
        endGroup(child);
      }, limitMs);
      const done = (code) => {
        clearTimeout(timer);
        this.#children.delete(child);
        resolve({ code, output, killed });
      };
      child.on('error', (error) => {
        output += String(error);
        done(1);
      });
      child.on('close', done);
    });
  }
}

/** A name as vitest writes it in reports and matches it. */
function spoken(name) {
  return name.split(' > ').join(' ');
}

function keyOf({ file, name }) {
  return `${file}: ${name}`;
}

function lastLines(output) {
  return output.trim().split('\n').slice(-6).join('\n');
}

function endGroup(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}
