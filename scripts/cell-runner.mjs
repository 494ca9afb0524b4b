// What scripts that run many replays share: which build they are of, a cache of what is done, and lanes in which the rest runs.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Sixteen hexadecimal digits that stand for these strings or buffers. */
export function digest(parts) {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** Digest of everything that was built. */
export function buildDigest(root) {
  return digest(
    readdirSync(join(root, 'dist'), { recursive: true, withFileTypes: true })
      .filter((file) => file.isFile() && /\.(js|wasm)$/.test(file.name))
      .map((file) => join(file.parentPath, file.name))
      .sort()
      .map((file) => readFileSync(file)),
  );
}

/** What a command that failed had to say. */
export function wordsOf({ message, stderr = '', stdout = '' }) {
  return `${stderr}${stdout}`.trim() || message;
}

/** Runs that are done, one JSON line each: `{ key, build, cell, run }`. */
export class CellCache {
  #file;
  #build;
  #anyBuild;
  /** What has to be written before the next line: a line that was cut must not swallow it. */
  #lineEnd = '';
  #runs = new Map();
  /** Builds of the runs that were read or added, by the text of their keys. */
  #builds = new Map();

  /**
   * @param {string} file
   * @param {{ build: string, anyBuild: boolean }} options with `anyBuild` runs of other builds count too, the latest of each key.
   */
  constructor(file, { anyBuild, build }) {
    this.#file = file;
    this.#build = build;
    this.#anyBuild = anyBuild;
    if (!existsSync(file)) return;
    const text = readFileSync(file, 'utf8');
    if (text !== '' && !text.endsWith('\n')) this.#lineEnd = '\n';
    for (const line of text.split('\n')) {
      try {
        const { build: of, key, run: done } = JSON.parse(line);
        if (anyBuild || of === build) this.#keep(key, of, done);
      } catch {
        // The command was stopped while it wrote this line.
      }
    }
  }

  get(key) {
    return this.#runs.get(JSON.stringify(key));
  }

  /** The build that a run is of. */
  buildOf(key) {
    return this.#builds.get(JSON.stringify(key));
  }

  add(key, cell, done) {
    this.#keep(key, this.#build, done);
    mkdirSync(dirname(this.#file), { recursive: true });
    const line = JSON.stringify({ key, build: this.#build, cell, run: done });
    appendFileSync(this.#file, `${this.#lineEnd}${line}\n`);
    this.#lineEnd = '';
  }

  #keep(key, build, done) {
    // Another build's run never stands in for one of this build.
    if (this.#anyBuild && build !== this.#build && this.buildOf(key) === this.#build) return;
    this.#runs.set(JSON.stringify(key), done);
    this.#builds.set(JSON.stringify(key), build);
  }
}

/** Does every task, `lanes` at a time, in order; ends early once the signal is aborted. */
export async function inLanes(tasks, lanes, perform, signal) {
  const waiting = [...tasks];
  await Promise.all(
    Array.from({ length: Math.min(lanes, waiting.length) }, async () => {
      for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
        if (signal?.aborted) return;
        await perform(task);
      }
    }),
  );
}

/**
 * Policy files of a folder that this build takes, by name; why one is refused goes to stderr.
 * @param {{ root: string, program: string, names: readonly string[], fileOf: (name: string) => string }} options
 * @returns {Promise<Map<string, { file: string, digest: string }>>}
 */
export async function acceptedPolicies({ fileOf, names, program, root }) {
  const accepted = new Map();
  for (const name of names) {
    const file = fileOf(name);
    try {
      await run(process.execPath, [program, 'check', file], { cwd: root });
      accepted.set(name, { file, digest: digest([readFileSync(file, 'utf8')]) });
    } catch (thrown) {
      // The list of known keys is long.
      const reason = (wordsOf(thrown).split('\n')[0] ?? '').split('; known: mode')[0];
      process.stderr.write(`left out: ${name}, which this build refuses: ${reason}\n`);
    }
  }
  return accepted;
}

/** Names of the policy files of a folder, those of `order` first. */
export function policyNames(folder, order) {
  const placeOf = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  return readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => basename(file, '.yaml'))
    .sort((a, b) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1));
}

/** Replays run one per core and make much short-lived memory: threads that collect it beside them would only take the others' time. */
const ONE_THREAD = ['--single-threaded-gc', '--no-incremental-marking'];

/** The report of `pointsman replay --json`. @throws what the command had to say. */
export async function replayReport({ args, program, root, signal }) {
  const { stdout } = await run(process.execPath, [...ONE_THREAD, program, 'replay', ...args, '--json'], {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
    signal,
    killSignal: 'SIGINT',
  });
  return JSON.parse(stdout);
}

/** @returns {number} @throws for anything but a whole number from 1. */
export function wholeNumber(option, text) {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new Error(`${option}: ${text} is not a whole number from 1`);
}
