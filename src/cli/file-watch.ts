// Tells when files changed and have been quiet for a while. It watches their folders, as editors replace a file by renaming another
// over it; where the system cannot watch a folder, the files in it are looked at every second.
import { type FSWatcher, statSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Clock } from '../plugin/index.ts';

/** No change for this long ends the wait, in ms. */
export const QUIET_MS = 200;
const POLL_MS = 1_000;
/** Where a cluster mounts configuration, every file is a link through this one, which alone is replaced. */
const MOUNTED = '..data';
const SOURCE = /\.(?:[cm]?[jt]s|json)$/;

/** Watches one folder; throws, or calls `failed` later, when it cannot. */
export type WatchFolder = (
  folder: string,
  changed: (name: string | null) => void,
  failed: () => void,
) => Pick<FSWatcher, 'close'>;

/** What a watch is made of. */
export interface FileWatchOptions {
  readonly clock: Clock;
  /** The files were changed, created or deleted. */
  readonly changed: () => void;
  readonly watchFolder?: WatchFolder;
  /** What tells two contents of a file apart; default: time, size and identity of the file. */
  readonly stampOf?: (path: string) => string;
}

interface Folder {
  readonly names: Set<string>;
  /** Null = it is looked at. */
  watcher: Pick<FSWatcher, 'close'> | null;
  /** Which folder is watched; another one may take its place under the same name. */
  readonly identity: string;
  stamps: ReadonlyMap<string, string>;
}

/** A watch over a set of files that may change. */
export class FileWatch {
  readonly #options: FileWatchOptions;
  readonly #folders = new Map<string, Folder>();
  #quiet: (() => void) | null = null;
  #poll: (() => void) | null = null;
  /** Whether any source in a watched folder counts. */
  #anySource = false;
  #closed = false;

  constructor(options: FileWatchOptions) {
    this.#options = options;
  }

  /**
   * Watches exactly these absolute paths from now on.
   * @param anySource whether every source file beside them counts as well: what is broken may be one that nobody knows yet
   */
  follow(paths: readonly string[], anySource = false): void {
    if (this.#closed) return;
    this.#anySource = anySource;
    const wanted = new Map<string, Set<string>>();
    for (const path of paths) {
      const names = wanted.get(dirname(path)) ?? new Set();
      wanted.set(dirname(path), names.add(basename(path)));
    }
    for (const [folder, { watcher }] of this.#folders) {
      if (wanted.has(folder)) continue;
      watcher?.close();
      this.#folders.delete(folder);
    }
    for (const [path, names] of wanted) {
      const known = this.#folders.get(path);
      if (known?.watcher == null || known.identity !== identityOf(path)) {
        known?.watcher?.close();
        this.#watch(path, names);
      } else {
        for (const name of known.names) if (!names.has(name)) known.names.delete(name);
        for (const name of names) known.names.add(name);
        known.stamps = this.#stamps(path, known.names);
      }
    }
    this.#pollAgain();
  }

  /** Ends it. Idempotent. */
  close(): void {
    this.#closed = true;
    this.#quiet?.();
    this.#poll?.();
    for (const { watcher } of this.#folders.values()) watcher?.close();
    this.#folders.clear();
  }

  #watch(path: string, names: Set<string>): void {
    const stamps = this.#stamps(path, names);
    const folder: Folder = { names, watcher: null, identity: identityOf(path), stamps };
    this.#folders.set(path, folder);
    const { watchFolder = watchWithSystem } = this.#options;
    try {
      folder.watcher = watchFolder(
        path,
        (name) => {
          const counts =
            name === null ||
            folder.names.has(name) ||
            name === MOUNTED ||
            // The folder itself was deleted or moved.
            name === basename(path) ||
            (this.#anySource && SOURCE.test(name));
          if (counts) this.#touched();
        },
        () => {
          folder.watcher?.close();
          folder.watcher = null;
          this.#pollAgain();
        },
      );
    } catch {
      // It is looked at instead.
    }
  }

  /** Something changed: waits until nothing more does. */
  #touched(): void {
    if (this.#closed) return;
    this.#quiet?.();
    this.#quiet = this.#options.clock.schedule(QUIET_MS, () => {
      this.#quiet = null;
      this.#options.changed();
    });
  }

  #pollAgain(): void {
    const polled = [...this.#folders.values()].some(({ watcher }) => watcher === null);
    if (!polled || this.#closed || this.#poll !== null) return;
    this.#poll = this.#options.clock.schedule(POLL_MS, () => {
      this.#poll = null;
      for (const [path, folder] of this.#folders) if (folder.watcher === null) this.#look(path, folder);
      this.#pollAgain();
    });
  }

  #look(path: string, folder: Folder): void {
    const stamps = this.#stamps(path, folder.names);
    const changed = [...stamps].some(([name, stamp]) => folder.stamps.get(name) !== stamp);
    folder.stamps = stamps;
    if (changed) this.#touched();
  }

  #stamps(folder: string, names: ReadonlySet<string>): Map<string, string> {
    const { stampOf = stampOfFile } = this.#options;
    return new Map([...names].map((name) => [name, stampOf(`${folder}/${name}`)]));
  }
}

const watchWithSystem: WatchFolder = (folder, changed, failed) => {
  const watcher = watch(folder, { persistent: false }, (_event, name) => changed(name));
  watcher.on('error', failed);
  return watcher;
};

function identityOf(folder: string): string {
  const stat = statSync(folder, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? 'none' : `${stat.dev} ${stat.ino}`;
}

function stampOfFile(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? 'none' : [stat.mtimeNs, stat.ctimeNs, stat.size, stat.ino].join(' ');
}
