// The process in which an author's tests run. Arguments: test files, relative to the working directory.
import { Console } from 'node:console';
import { test } from 'node:test';
import { PluginLoader } from '../host/index.ts';
import { testKit } from './plugin-modules.ts';
import { systemClock } from './system-clock.ts';

// Standard output belongs to the reporter.
globalThis.console = new Console(process.stderr, process.stderr);
const loader = new PluginLoader(process.cwd(), systemClock(), await testKit());
for (const file of process.argv.slice(2)) {
  try {
    await loader.load(`./${file}`);
  } catch (thrown) {
    // A file that cannot be loaded is a failure among the others, not the end of the run.
    void test(`load ${file}`, () => {
      throw thrown;
    });
  }
}
