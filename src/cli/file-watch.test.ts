// When a change is told, with a clock and a folder watch of the test's own; and one real file replaced by a rename.
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { FileWatch, type WatchFolder } from './file-watch.ts';
import { systemClock } from './system-clock.ts';

const open: FileWatch[] = [];
afterEach(() => {
  for (const watch of open.splice(0)) watch.close();
});

function start(works = true) {
  const clock = new ManualClock();
  const folders = new Map<string, { changed: (name: string | null) => void; failed: () => void }>();
  const stamps = new Map<string, string>();
  const watchFolder: WatchFolder = (folder, changed, failed) => {
    if (!works) throw new Error('no watch here');
    folders.set(folder, { changed, failed });
    return { close: () => void folders.delete(folder) };
  };
  let told = 0;
  const watch = new FileWatch({
    clock,
    changed: () => {
      told += 1;
    },
    watchFolder,
    stampOf: (path) => stamps.get(path) ?? 'none',
  });
  open.push(watch);
  return {
    clock,
    folders,
    stamps,
    watch,
    told: () => told,
    wait: (ms: number) => clock.advanceTo(clock.now() + ms),
  };
}

describe('a watch', () => {
  it('tells once, 200 ms after the last of several changes', () => {
    const { folders, told, wait, watch } = start();
    watch.follow(['/p/a.ts', '/p/b.ts', '/q/c.ts']);
    folders.get('/p')?.changed('a.ts');
    wait(199);
    folders.get('/q')?.changed('c.ts');
    wait(199);
    expect(told()).toBe(0);
    wait(1);
    expect(told()).toBe(1);
    wait(10_000);
    expect(told()).toBe(1);
  });

  it('minds the files it was given, and where asked any source beside them', () => {
    const { folders, told, wait, watch } = start();
    watch.follow(['/p/a.ts']);
    for (const name of ['other.ts', 'a.ts.new', 'log.txt']) folders.get('/p')?.changed(name);
    wait(500);
    expect(told()).toBe(0);
    watch.follow(['/p/a.ts'], true);
    folders.get('/p')?.changed('log.txt');
    wait(500);
    expect(told()).toBe(0);
    folders.get('/p')?.changed('other.ts');
    wait(500);
    expect(told()).toBe(1);
    // A system that does not say which.
    folders.get('/p')?.changed(null);
    wait(500);
    expect(told()).toBe(2);
  });

  it('lets go of folders nobody asks for any more, and of all when it is closed', () => {
    const { folders, told, wait, watch } = start();
    watch.follow(['/p/a.ts', '/q/b.ts']);
    const { changed } = folders.get('/q')!;
    watch.follow(['/q/b.ts', '/q/c.ts']);
    expect([...folders.keys()]).toEqual(['/q']);
    changed('c.ts');
    watch.close();
    expect([...folders.keys()]).toEqual([]);
    wait(10_000);
    expect(told()).toBe(0);
  });

  it('looks every second where the system cannot watch, or stops watching', () => {
    for (const works of [false, true]) {
      const { folders, stamps, told, wait, watch } = start(works);
      watch.follow(['/p/a.ts']);
      folders.get('/p')?.failed();
      wait(2_000);
      expect(told()).toBe(0);
      stamps.set('/p/a.ts', 'written');
      wait(1_000);
      wait(200);
      expect(told()).toBe(1);
      stamps.delete('/p/a.ts');
      wait(1_200);
      expect(told()).toBe(2);
      wait(5_000);
      expect(told()).toBe(2);
    }
  });

  it('hears of a real file that another is renamed over, and of its deletion', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'watch-'));
    writeFileSync(join(folder, 'a.ts'), '1');
    let hear: () => void = () => undefined;
    const heard = (): Promise<void> =>
      new Promise((resolve) => {
        hear = resolve;
      });
    const watch = new FileWatch({ clock: systemClock(), changed: () => hear() });
    open.push(watch);
    watch.follow([join(folder, 'a.ts')]);
    const replaced = heard();
    writeFileSync(join(folder, 'new'), '2');
    renameSync(join(folder, 'new'), join(folder, 'a.ts'));
    await replaced;
    const deleted = heard();
    rmSync(join(folder, 'a.ts'));
    await deleted;
    rmSync(folder, { recursive: true });
  });

  it('goes on with a folder that was deleted and made again', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'watch-'));
    const inner = join(folder, 'inner');
    const make = (text: string): void => {
      mkdirSync(inner);
      writeFileSync(join(inner, 'a.ts'), text);
    };
    make('1');
    let hear: () => void = () => undefined;
    const heard = (): Promise<void> =>
      new Promise((resolve) => {
        hear = resolve;
      });
    const watch = new FileWatch({ clock: systemClock(), changed: () => hear() });
    open.push(watch);
    watch.follow([join(inner, 'a.ts')]);
    for (const text of ['2', '3']) {
      const gone = heard();
      rmSync(inner, { recursive: true });
      await gone;
      // As after the reload that fails then.
      watch.follow([join(inner, 'a.ts')]);
      const back = heard();
      make(text);
      await back;
      watch.follow([join(inner, 'a.ts')]);
    }
    rmSync(folder, { recursive: true });
  });
});
