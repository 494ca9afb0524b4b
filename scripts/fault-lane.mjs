// One copy of the repository in a temporary folder, in which faults are planted and tests run. Nothing outside of it is written.
import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const RUNNER = fileURLToPath(new URL('fault-runner.mjs', import.meta.url));

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
  #runner = null;
  /** Files that changed since the runner ran last. */
  #changed = new Set();

  /** @param {string} root the repository */
  constructor(root) {
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), 'pointsman-faults-')));
    const wanted = (path) => path === root || !LEFT_OUT.has(basename(path));
    cpSync(root, this.folder, { recursive: true, filter: wanted });
    symlinkSync(realpathSync(join(root, 'node_modules')), join(this.folder, 'node_modules'));
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
    const write = (text) => {
      writeFileSync(path, text);
      this.#changed.add(file);
    };
    write(before.replace(text, () => instead));
    return () => write(before);
  }

  /**
   * Runs tests and says how each went.
   * @param {readonly { file: string, name: string, by?: string }[]} tests
   * @returns {Promise<Map<string, { status: 'passed' | 'failed' | 'missing', reason: string }>>} by `file: name`
   */
  async run(tests) {
    const refused = tests.some(({ by }) => by === 'process') ? await this.#build() : null;
    const results = refused === null ? await this.#ask(tests) : refused;
    return new Map(
      tests.map((test, at) => [
        `${test.file}: ${test.name}`,
        Array.isArray(results) ? results[at] : missing(results),
      ]),
    );
  }

  /** Has the runner run tests; answers how each went, or in words why none did. */
  #ask(tests) {
    const runner = this.#runner ?? this.#startRunner();
    const files = new Set(tests.map(({ file }) => file));
    const limitMs = RUN_LIMIT_MS + (files.size - 1) * FILE_LIMIT_MS;
    const changed = [...this.#changed];
    this.#changed.clear();
    return new Promise((resolve) => {
      const done = (answer) => {
        clearTimeout(timer);
        runner.removeAllListeners('message');
        runner.removeAllListeners('close');
        resolve(answer);
      };
      const timer = setTimeout(() => {
        this.#forget(runner);
        done(`it was ended after ${limitMs / 1000} s, as vitest could not end it`);
      }, limitMs);
      runner.once('message', ({ results }) => done(results));
      runner.once('close', () => {
        this.#forget(runner);
        done(`the process that runs tests ended: ${lastLines(runner.output)}`);
      });
      runner.send({ tests, changed });
    });
  }

  #startRunner() {
    const runner = this.#spawn([RUNNER], ['ignore', 'pipe', 'pipe', 'ipc']);
    this.#runner = runner;
    return runner;
  }

  #forget(runner) {
    endGroup(runner);
    this.#children.delete(runner);
    this.#runner = null;
  }

  /** Builds the program, only what changed after the first time; answers what the compiler refuses. */
  async #build() {
    const { code, output } = await this.#node(['scripts/build.mjs', ...(this.#built ? ['--if-stale'] : [])]);
    this.#built ||= code === 0;
    return code === 0 ? null : lastLines(output);
  }

  /** Takes over what is built in another copy or the repository, if anything is. */
  takeBuild(folder) {
    if (!existsSync(join(folder, 'dist', '.built'))) return;
    const options = { recursive: true, preserveTimestamps: true };
    cpSync(join(folder, 'dist'), join(this.folder, 'dist'), options);
    this.#built = true;
  }

  #node(args) {
    return new Promise((resolve) => {
      const child = this.#spawn(args, ['ignore', 'pipe', 'pipe']);
      const timer = setTimeout(() => endGroup(child), RUN_LIMIT_MS);
      child.on('close', (code) => {
        clearTimeout(timer);
        this.#children.delete(child);
        resolve({ code, output: child.output });
      });
    });
  }

  #spawn(args, stdio) {
    const child = spawn(process.execPath, args, {
      cwd: this.folder,
      stdio,
      // Of its own group, so that what it started ends with it.
      detached: true,
      env: { ...process.env, NO_COLOR: '1', CI: 'true' },
    });
    this.#children.add(child);
    child.output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (chunk) => {
        child.output = (child.output + chunk).slice(-20_000);
      });
    }
    child.on('error', (error) => {
      child.output += String(error);
    });
    return child;
  }
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
