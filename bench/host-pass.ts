// One comparison in a process of its own: what the engine makes of the first functions it sees is luck, and another luck in each
// process. Run by bench/host.ts as `node host-pass.js NAME`; prints the figures as JSON.
import { fileURLToPath } from 'node:url';
import { compareScorers, compareWrapper } from './host-selection.ts';
import {
  compareCopying,
  compareNoOps,
  compareSelectionsOfBuilds,
  compareWithoutStage,
} from './host-stage.ts';
import type { Compared } from './interleaved.ts';

/** Every comparison by name. */
export const COMPARISONS: Readonly<Record<string, () => Promise<readonly Compared[]>>> = {
  '2 workers': () => compareWrapper(2),
  '32 workers': () => compareWrapper(32),
  '1024 workers': () => compareWrapper(1024),
  'scorers, 1024 workers': () => compareScorers(1024),
  'selection, 32 workers': () => compareSelectionsOfBuilds(32),
  'workers without hints': () => compareWithoutStage(false),
  'workers with hints': () => compareWithoutStage(true),
  '4k tokens, 32 workers': compareNoOps,
  'copies, 32 workers': () => compareCopying(32),
  'copies, 1024 workers': () => compareCopying(1024),
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const compared = COMPARISONS[process.argv[2] ?? ''];
  if (compared === undefined) throw new Error(`no comparison is named ${process.argv[2]}`);
  process.stdout.write(JSON.stringify(await compared()));
}
