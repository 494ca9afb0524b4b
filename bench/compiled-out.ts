// A second build beside the one that runs: the compiled sources copied to a folder of their own, once as they are and once with the
// hint stage cut out by replacing a text. The modules of the copies are others, so each build is compiled for itself when it runs.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROAD = 'src/road/walk.js';
const STAGE = [
  '        if (commit === null && hasNothingToRun(runtime, request, decision))',
  '            return null;',
  '        const { hintStage, threadedHints = null } = runtime;',
].join('\n');
/** What follows a plain return is not compiled. */
const CUT = '        return null;';

/** The benchmarks' modules of one build. */
export interface BuildCopy {
  readonly road: typeof import('./bench-road.ts');
  readonly selection: typeof import('./host-selection.ts');
}

/**
 * Copies the build to `.bench/NAME` and loads the benchmarks' modules from there.
 * @throws Error when the text to be cut is not there exactly once.
 */
export async function buildCopy(name: string, hintStage: 'kept' | 'cut'): Promise<BuildCopy> {
  const built = fileURLToPath(new URL('..', import.meta.url));
  const copy = `${built}${name}`;
  rmSync(copy, { recursive: true, force: true });
  for (const folder of ['src', 'bench'])
    cpSync(`${built}${folder}`, `${copy}/${folder}`, { recursive: true });
  if (hintStage === 'cut') {
    const path = `${copy}/${ROAD}`;
    const [before, after, ...more] = readFileSync(path, 'utf8').split(STAGE);
    if (before === undefined || after === undefined || more.length > 0) {
      throw new Error(
        `${ROAD} does not hold once the text that begins the hint stage; bring bench/compiled-out.ts up to date:\n${STAGE}`,
      );
    }
    writeFileSync(path, `${before}${CUT}${after}`);
  }
  return {
    road: await import(`${copy}/bench/bench-road.js`),
    selection: await import(`${copy}/bench/host-selection.js`),
  };
}
