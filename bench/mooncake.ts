// The Mooncake benchmark of KV indexes: a trace's look-ups and the KV events of its workers, through the prefix index and through a tree
// of Maps, as fast as possible and at a rate. Its parts lie in bench/mooncake/, its options in scripts/mooncake-options.mjs.
import type { EngineHashes, MooncakeOptions } from '../scripts/mooncake-options.mjs';
import { readTrace } from '../src/replay/index.ts';
import type { BenchResult, BenchRow } from './bench-result.ts';
import { madeTrace, shapeInWords } from './mooncake/made-trace.ts';
import { memoryInWords, pausesInWords, settingsInWords, speedInWords } from './mooncake/notes.ts';
import { operationsOf } from './mooncake/operations.ts';
import { longestCalls, PAUSE_PASSES, type Pauses } from './mooncake/pauses.ts';
import { grownRequests, type Requests } from './mooncake/requests.ts';
import { closedRows, openRows, pauseRows, residentRows, whole } from './mooncake/rows.ts';
import { keepCompiled } from './mooncake/sides.ts';

const HASHES_IN_WORDS: Readonly<Record<EngineHashes, string>> = { own: '', router: ' without engine hashes' };

/** At once, as the table comes last. */
const warn = (text: string): void => void process.stderr.write(`warning: ${text}\n`);

async function requestsOf(options: MooncakeOptions): Promise<{ requests: Requests; words: string }> {
  const { limit, seed, trace } = options;
  const read = trace.file === null ? madeTrace(trace.name, limit, seed) : await readTrace(trace.file, limit);
  const requests = grownRequests(read, { lengthFactor: options.lengthFactor, copies: options.traceCopies });
  const first = trace.file !== null && limit !== null ? 'the first ' : '';
  const size = `${first}${whole(read.requests)} requests with ${whole(read.hashIds.length)} blocks`;
  const words =
    trace.file === null
      ? `made, ${trace.reason}: ${size} in the shape of ${trace.name}, that is ${shapeInWords(trace.name)}`
      : `${trace.name}, ${size}`;
  return { requests, words };
}

async function run(options: MooncakeOptions): Promise<BenchResult> {
  const { requests, words } = await requestsOf(options);
  const rows: BenchRow[] = [];
  const pauses: Pauses[] = [];
  const notes: string[] = settingsInWords(options, words);
  for (const hashes of options.engineHashes) {
    for (const [place, workers] of options.workers.entries()) {
      const main = place === 0;
      const work = operationsOf(requests, { ...options, workers, named: hashes === 'own' });
      keepCompiled(work.list);
      const label = `${whole(work.owners)} ${work.owners === 1 ? 'worker' : 'workers'}${HASHES_IN_WORDS[hashes]}`;
      if (options.loops.includes('closed')) {
        const closed = closedRows(label, work, main ? options.rounds : Math.ceil(options.rounds / 2));
        rows.push(...closed.rows);
        notes.push(speedInWords(label, closed.events, hashes));
        pauses.push(longestCalls(work, PAUSE_PASSES));
      }
      if (main) {
        const resident = residentRows(label, work);
        rows.push(...resident.rows);
        notes.push(memoryInWords(label, resident, hashes));
      }
      if (main && hashes === options.engineHashes[0] && options.loops.includes('open')) {
        rows.push(...openRows(label, work, options.rates, warn));
      }
      if (work.tooLong > 0) {
        notes.push(
          `${label}: ${whole(work.tooLong)} requests are longer than a cache, and were looked up only.`,
        );
      }
    }
  }
  if (pauses.length > 0) notes.push(pausesInWords(pauses));
  return { name: 'mooncake', rows: [...rows, ...pauseRows(pauses)], notes };
}

export default { name: 'mooncake', run };
