// The options of the Mooncake benchmark: what they are, which values they take, and where its traces lie.
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const TRACES = ['conversation', 'synthetic', 'toolagent'];
/** Owner slots of the prefix index. */
const MOST_OWNERS = 65_536;
const LOOPS = { both: ['closed', 'open'], closed: ['closed'], open: ['open'] };
const ENGINE_HASHES = { both: ['own', 'router'], own: ['own'], router: ['router'] };

/** Options that take a number: default, least, most, placeholder and meaning. */
const NUMBERS = {
  limit: [null, 1, 5_000_000, 'only the first N requests of the trace (default: all; 4,000 of a made one)'],
  duplicates: [1, 1, MOST_OWNERS, 'copies of every worker: they get its requests and tell its events too'],
  'length-factor': [1, 1, 4096, 'each id h of the trace becomes h·N … h·N + N − 1'],
  'trace-copies': [1, 1, 4096, 'copies of every request, each with ids of its own'],
  'block-size': [512, 1, 4096, 'tokens of a block: its id, so many times'],
  capacity: [16_384, 1, 16_777_216, "blocks of a worker's cache"],
  seed: [42, 0, 4_294_967_295, 'which worker gets which request; also of a made trace'],
  rounds: [5, 1, 1000, 'rounds of the closed loop, of which the medians stand'],
};

const HELP = `Usage: npm run bench:mooncake -- [OPTIONS]

Replays a Mooncake trace against the prefix index and against a tree of Maps, as the KV events and look-ups of many workers. Requests are
spread over the workers at random; each worker has a least-recently-used block cache whose changes are the events.

Closed loop: as fast as possible, both sides in turn. Open loop: operations fall due at a rate; look-ups are timed from when they were due.

  --trace NAME|FILE     ${TRACES.join(', ')}: from ../shared/data beside the repository, or made in that
                        shape when it is not there; or a Mooncake JSONL file, plain or .gz (default conversation)
  --made                make the trace even if it could be read
  --workers LIST        unique workers; the first number gets everything, the others the closed loop only
                        (default 100,1,7,1000)
${Object.entries(NUMBERS)
  .map(([name, [value, , , meaning]]) => {
    const text = `  ${`--${name} N`.padEnd(20)}  ${meaning}`;
    return value === null ? text : `${text} (default ${value.toLocaleString('en-US')})`;
  })
  .join('\n')}
  --engine-hashes WHICH own: workers announce hashes of their engine's own; router: the router's; both (default)
  --loop WHICH          closed, open, both (default)
  --rate LIST           operations per second of the open loop (default: a sweep, from 10,000 on twice as many each time until a
                        side falls behind by more than 10 %)
  --write               also put the figures into docs/benchmarks.md
  --json                print them as JSON
  --help

Examples:
  npm run bench:mooncake
  npm run bench:mooncake -- --workers 7 --loop closed
  npm run bench:mooncake -- --workers 100 --duplicates 7 --rate 12000,48000
  npm run bench:mooncake -- --workers 100 --block-size 16 --length-factor 32 --limit 2000   # the same prompts in blocks of 16
  npm run bench:mooncake -- --trace toolagent --made --json
`;

export function readMooncakeArguments(args, data) {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        trace: { type: 'string', default: 'conversation' },
        made: { type: 'boolean', default: false },
        workers: { type: 'string', default: '100,1,7,1000' },
        'engine-hashes': { type: 'string', default: 'both' },
        loop: { type: 'string', default: 'both' },
        rate: { type: 'string' },
        help: { type: 'boolean', default: false },
        ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, { type: 'string' }])),
      },
    });
    return values.help ? { help: HELP } : { options: optionsOf(values, data) };
  } catch (thrown) {
    if (thrown instanceof Refused || thrown.code?.startsWith('ERR_PARSE_ARGS'))
      return { problem: `${thrown.message}; see npm run bench:mooncake -- --help` };
    throw thrown;
  }
}

/** Why an option is refused. */
class Refused extends Error {
  code = 'MOONCAKE_OPTION';
}

function optionsOf(values, data) {
  const number = (name) => {
    const [fallback, least, most] = NUMBERS[name];
    return values[name] === undefined ? fallback : numberOf(`--${name}`, values[name], least, most);
  };
  const list = (name, most) => values[name].split(',').map((text) => numberOf(`--${name}`, text, 1, most));
  const workers = list('workers', MOST_OWNERS);
  const duplicates = number('duplicates');
  const owners = Math.max(...workers) * duplicates;
  if (owners > MOST_OWNERS) {
    throw new Refused(
      `--workers times --duplicates is ${owners}, but the prefix index has ${MOST_OWNERS} owner slots`,
    );
  }
  return {
    trace: traceOf(values, data),
    limit: number('limit'),
    workers,
    duplicates,
    lengthFactor: number('length-factor'),
    traceCopies: number('trace-copies'),
    blockSize: number('block-size'),
    capacity: number('capacity'),
    seed: number('seed'),
    engineHashes: choiceOf('--engine-hashes', values['engine-hashes'], ENGINE_HASHES),
    loops: choiceOf('--loop', values.loop, LOOPS),
    rounds: number('rounds'),
    rates: values.rate === undefined ? null : list('rate', 100_000_000),
  };
}

function numberOf(option, text, least, most) {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new Refused(`${option} takes whole numbers from ${least} to ${most}, not ${JSON.stringify(text)}`);
}

function choiceOf(option, text, choices) {
  if (Object.hasOwn(choices, text)) return choices[text];
  throw new Refused(`${option} takes ${Object.keys(choices).join(', ')}, not ${JSON.stringify(text)}`);
}

function traceOf({ made, trace: name }, data) {
  if (!TRACES.includes(name)) {
    if (made) throw new Refused(`--made makes ${TRACES.join(', ')}, not ${JSON.stringify(name)}`);
    if (existsSync(name)) return { name: basename(name), file: resolve(name), reason: null };
    throw new Refused(
      `--trace takes ${TRACES.join(', ')} or a file, and there is no file ${JSON.stringify(name)}`,
    );
  }
  if (made) return { name, file: null, reason: 'as asked for' };
  const file = join(data, `mooncake_${name}_trace.jsonl.gz`);
  return existsSync(file)
    ? { name, file, reason: null }
    : { name, file: null, reason: `as ../shared/data has no mooncake_${name}_trace.jsonl.gz` };
}
