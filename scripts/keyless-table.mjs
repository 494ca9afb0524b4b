// Prints how well conversations without any id are told apart by their prompts, on recorded agents whose sessions are known.
// Usage: node scripts/keyless-table.mjs --help
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: node scripts/keyless-table.mjs [FOLDER] [OPTIONS]

Reads the agent traces of FOLDER (default: ../shared/data beside the repository), takes the session ids away, interleaves the sessions by
time and prints how many later turns get a name that their session had before (named rightly), a new one although more than half of an earlier
prompt comes again (renamed), a new one where none does (restarts: sub-agents and compactions under one id), and how many of all turns get a
name of another session (false merges) or none (unnamed). Takes a few seconds.

  --gap N          seconds between the beginnings of two sessions of a trace that has no times of its own (default 30)
  --max-bytes N    memory of the table (default 33554432)
  --help
`;
/** Characters that stand for a block where a trace holds text: 16 tokens of four characters. */
const BLOCK_CHARACTERS = 64;
const HOUR_MS = 3_600_000;

const { values, positionals } = argumentsOf(process.argv.slice(2));
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const folder = positionals[0] ?? join(root, '..', 'shared', 'data');
const gapMs = Number(values.gap) * 1000;
const built = join(root, 'dist/kv/index.js');
if (!existsSync(built)) fail('nothing is built; run node scripts/build.mjs first');
const { KeylessSessions } = await import(built);

const rows = [];
for (const trace of ['claude_code_agentic_traces', 'claude_code_subagent_traces'])
  for (const common of [true, false]) {
    const name = `${trace}, ${common ? 'common' : 'own'} beginning`;
    rows.push([name, measure(claudeTurns(linesOf(trace), common))]);
  }
for (const trace of ['lmcache_agent_miniswe', 'lmcache_agent_taubench', 'lmcache_agent_magagent'])
  rows.push([trace, measure(textTurns(linesOf(trace)))]);
print(rows);

/** @param turns in any order: { at, session, chain }, where a chain is a list of block contents. */
function measure(turns) {
  const sessions = new KeylessSessions({
    maxBytes: Number(values['max-bytes']),
    maxConversations: 16_384,
    ttlMs: HOUR_MS,
  });
  const nameOwner = new Map();
  const chains = new Map();
  const tally = { next: 0, right: 0, renamed: 0, restarts: 0, unnamed: 0, merged: 0, turns: 0 };
  turns.sort((a, b) => a.at - b.at);
  const from = process.hrtime.bigint();
  let blocks = 0;
  for (const { at, session, chain } of turns) {
    const sequence = hashesOf(chain);
    blocks += chain.length;
    const name = sessions.nameOf('model', sequence, at);
    tally.turns += 1;
    const owner = nameOwner.get(name);
    if (name === null) tally.unnamed += 1;
    else if (owner === undefined) nameOwner.set(name, session);
    else if (owner !== session) tally.merged += 1;
    const before = chains.get(session);
    if (before === undefined) chains.set(session, [chain]);
    else {
      tally.next += 1;
      if (owner === session) tally.right += 1;
      else if (name !== null && owner === undefined) {
        const repeats = before.some((earlier) => commonLength(earlier, chain) > earlier.length / 2);
        tally[repeats ? 'renamed' : 'restarts'] += 1;
      }
      before.push(chain);
    }
  }
  const micros = Number(process.hrtime.bigint() - from) / 1000;
  return {
    ...tally,
    sessions: chains.size,
    names: nameOwner.size,
    bytes: sessions.bytes,
    nsPerBlock: (micros * 1000) / blocks,
  };
}

function claudeTurns(sessions, common) {
  const turns = [];
  sessions.forEach((line, index) => {
    const shared = Math.floor((line.tool_tokens + line.system_tokens) / line.block_size);
    const add = (requests, session, startMs, beginning) => {
      for (const request of requests) {
        const at = startMs + request.t * 1000;
        if (request.type === 'subagent') {
          const own = Math.floor((request.tool_tokens + request.system_tokens) / line.block_size);
          add(request.requests, `${session}/${request.agent_id}`, startMs, own);
        } else {
          const chain = request.hash_ids.map((id, place) =>
            common && place < beginning ? `common ${place}` : `${index} ${id}`,
          );
          turns.push({ at, session, chain });
        }
      }
    };
    add(line.requests, String(index), index * gapMs, shared);
  });
  return turns;
}

function textTurns(lines) {
  return lines.map(({ timestamp, input, session_id: session }) => {
    const text = typeof input === 'string' ? input : JSON.stringify(input);
    const chain = [];
    for (let at = 0; at + BLOCK_CHARACTERS <= text.length; at += BLOCK_CHARACTERS)
      chain.push(text.slice(at, at + BLOCK_CHARACTERS));
    return { at: timestamp / 1000, session, chain };
  });
}

function commonLength(a, b) {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}

/** Sequence hashes as pairs of 32 bits: each block's text, and all before it. */
function hashesOf(chain) {
  const pairs = new Uint32Array(2 * chain.length);
  let low = 1;
  let high = 2;
  chain.forEach((text, index) => {
    for (let at = 0; at < text.length; at += 1) {
      low = Math.imul(low ^ text.charCodeAt(at), 0x01000193);
      high = Math.imul(high ^ text.charCodeAt(at), 0x85ebca6b) ^ (high >>> 13);
    }
    low = Math.imul(low ^ (low >>> 15), 0xc2b2ae35);
    pairs[2 * index] = low;
    pairs[2 * index + 1] = high;
  });
  return pairs;
}

function linesOf(trace) {
  const file = join(folder, `${trace}.jsonl.gz`);
  if (!existsSync(file)) fail(`there is no ${file}`);
  const text = gunzipSync(readFileSync(file)).toString('utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

function print(table) {
  const lines = [
    '| trace | sessions | later turns | named rightly | restarts | renamed | false merges | unnamed | names | ns per block |',
    '| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |',
  ];
  const percent = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;
  for (const [name, row] of table) {
    const cells = [
      name,
      row.sessions,
      row.next,
      percent(row.right, row.next),
      percent(row.restarts, row.next),
    ];
    cells.push(
      percent(row.renamed, row.next),
      percent(row.merged, row.turns),
      percent(row.unnamed, row.turns),
    );
    cells.push(row.names, row.nsPerBlock.toFixed(0));
    lines.push(`| ${cells.join(' | ')} |`);
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}

function argumentsOf(args) {
  const text = (fallback) => ({ type: 'string', default: fallback });
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: { gap: text('30'), 'max-bytes': text('33554432'), help: { type: 'boolean' } },
    });
  } catch (thrown) {
    return fail(thrown.message);
  }
}

function fail(sentence) {
  process.stderr.write(`keyless-table: ${sentence}\n`);
  process.exit(2);
}
