// A line of a session trace: what is read, and that everything wrong is refused with its place.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { MAX_DEPTH, parseSessionLine } from './session-line.ts';
import { BLOCK, type EntryRow, parsed, sessionRows } from './session-traces.fixtures.ts';

const FIRST = {
  t: 0,
  type: 'n',
  model: 'm',
  in: 130,
  out: 20,
  hash_ids: [7, 9],
  input_types: ['text'],
  output_types: ['tool_use'],
  stop: 'tool_use',
  api_time: 2.5,
  think_time: 0,
};
const SECOND = {
  ...FIRST,
  t: 10,
  type: 's',
  in: 200,
  hash_ids: [7, 9, 3],
  input_types: ['tool_result'],
  think_time: 7.5,
  ttft: 1,
};
const AGENT = {
  t: 9,
  type: 'subagent',
  agent_id: 'agent_1',
  subagent_type: 'Explore',
  duration_ms: 5500,
  total_tokens: 10,
  tool_use_count: 1,
  status: 'completed',
  requests: [{ ...FIRST, hash_ids: [20, 21], api_time: 5 }],
  models: ['m'],
  tool_tokens: 1,
  system_tokens: 2,
};
const LINE = {
  id: 'one',
  models: ['m'],
  block_size: 64,
  hash_id_scope: 'local',
  tool_tokens: 5,
  system_tokens: 6,
  totals: {},
  requests: [FIRST, SECOND],
};

function problem(row: unknown, line = 3): string {
  try {
    parsed(row, line);
  } catch (thrown) {
    if (thrown instanceof PointsmanError && thrown.code === 'PM_REPLAY_TRACE') return thrown.message;
    throw thrown;
  }
  return 'no problem';
}

/** The line with one field of its second request changed. */
function withSecond(change: object): object {
  return { ...LINE, requests: [FIRST, { ...SECOND, ...change }] };
}

describe('parseSessionLine', () => {
  it('reads turns with their times in ms, ids renumbered within the line and what triggered them', () => {
    const line = parsed(LINE);
    expect(line).toMatchObject({ blockSize: 64, uniqueIds: 3, requests: 2, ids: 5 });
    expect(line.sessions).toEqual([
      {
        id: 'one',
        parent: -1,
        startsAfter: -1,
        startDelayMs: 0,
        turns: [
          {
            inputTokens: 130,
            outputTokens: 20,
            ids: Uint32Array.of(0, 1),
            thinkMs: 0,
            answerMs: 2500,
            awaits: [],
            trigger: 'user_message',
          },
          {
            inputTokens: 200,
            outputTokens: 20,
            ids: Uint32Array.of(0, 1, 2),
            thinkMs: 7500,
            answerMs: 2500,
            awaits: [],
            trigger: 'tool_result',
          },
        ],
      },
    ]);
  });

  it('starts a sub-agent so long before its end as it took, and lets the next turn of its parent wait for it', () => {
    const { sessions } = parsed({ ...LINE, requests: [FIRST, AGENT, SECOND] });
    expect(
      sessions.map(({ id, parent, startDelayMs, startsAfter }) => [id, parent, startsAfter, startDelayMs]),
    ).toEqual([
      ['one', -1, -1, 0],
      // It began at 9 − 5.5 = 3.5 s; the answer before it was complete at 2.5 s.
      ['one/agent_1', 0, 0, 1000],
    ]);
    expect(sessions[0]!.turns.map(({ awaits, thinkMs }) => [awaits, thinkMs])).toEqual([
      [[], 0],
      [[1], 1000],
    ]);
  });

  it('lets nobody wait for a sub-agent that outlasts its parent, nor a turn that was sent before its end', () => {
    const late = { ...AGENT, t: 12, duration_ms: 9000 };
    const third = { ...SECOND, t: 20, think_time: 4 };
    const [parent] = parsed({ ...LINE, requests: [FIRST, SECOND, late, third] }).sessions;
    expect(parent!.turns.map(({ awaits, thinkMs }) => [awaits, thinkMs])).toEqual([
      [[], 0],
      [[], 7500],
      // After both the answer (12.5 s) and the sub-agent (12 s).
      [[1], 7500],
    ]);
    const [alone] = parsed({ ...LINE, requests: [FIRST, SECOND, { ...late, t: 30 }] }).sessions;
    expect(alone!.turns.flatMap(({ awaits }) => awaits)).toEqual([]);
  });

  it('takes the time between two requests for a think time that is missing, and an answer of no token for one', () => {
    const { think_time: _, ...untold } = SECOND;
    const [session] = parsed({ ...LINE, requests: [{ ...FIRST, out: 0 }, untold] }).sessions;
    expect(session!.turns.map(({ outputTokens, thinkMs }) => [outputTokens, thinkMs])).toEqual([
      [1, 0],
      [20, 7500],
    ]);
  });

  it.each([
    [['text', 'thinking', 'tool_result', 'tool_use'], null],
    [['tool_result', 'text'], 'tool_result'],
    [['text', 'image'], 'user_message'],
    [['image'], null],
    [undefined, null],
  ])('says of input_types %j that the trigger is %s', (input_types, trigger) => {
    expect(parsed(withSecond({ input_types })).sessions[0]!.turns[1]!.trigger).toBe(trigger);
  });

  it.each<[object | string | null, string]>([
    [null, 'the line is no JSON object with id, block_size and requests'],
    [
      { ...LINE, id: 'a b' },
      'id is "a b"; it must be a text of 1 to 128 printable ASCII characters without blanks',
    ],
    [
      { ...LINE, id: undefined },
      'id is missing; it is a text of 1 to 128 printable ASCII characters without blanks',
    ],
    [{ ...LINE, block_size: 0 }, 'block_size is 0; it must be a whole number from 1 to 4096'],
    [{ ...LINE, hash_id_scope: 'global' }, 'hash_id_scope is "global"; it must be "local"'],
    [{ ...LINE, models: 'm' }, 'models is "m"; it must be a list of at most 64 texts'],
    [{ ...LINE, tool_tokens: -1 }, 'tool_tokens is -1; it must be a whole number from 0 to 4194304'],
    [{ ...LINE, system_tokens: 0.5 }, 'system_tokens is 0.5; it must be a whole number from 0 to 4194304'],
    [{ ...LINE, requests: {} }, 'requests is {}; it must be a list of 1 to 100000 objects'],
    [{ ...LINE, requests: [] }, 'requests has 0 entries; it must be a list of 1 to 100000 objects'],
    [{ ...LINE, requests: [FIRST, 4] }, 'requests[1] is 4; it must be an object'],
    [{ ...LINE, requests: [AGENT] }, 'requests holds no request of type "n" or "s"'],
    [withSecond({ type: 'x' }), 'requests[1].type is "x"; it must be "n" or "s" or "subagent"'],
    [withSecond({ t: -1 }), 'requests[1].t is -1; it must be a number from 0 to 10000000000'],
    [
      { ...LINE, requests: [{ ...FIRST, t: 11 }, SECOND] },
      'requests[1].t is before that of the request above, 11; requests stand in order',
    ],
    [withSecond({ in: 0 }), 'requests[1].in is 0; it must be a whole number from 1 to 4194304'],
    [
      withSecond({ in: 191 }),
      'requests[1].hash_ids has 3 entries, but in 191 with blocks of 64 tokens makes 2',
    ],
    [withSecond({ out: 1.5 }), 'requests[1].out is 1.5; it must be a whole number from 0 to 4194304'],
    [withSecond({ hash_ids: 'x' }), 'requests[1].hash_ids is "x"; it must be a list of whole numbers'],
    [
      withSecond({ hash_ids: [7, -9, 3] }),
      'requests[1].hash_ids[1] is -9; it must be a whole number from 0 to 4294967295',
    ],
    [
      withSecond({ input_types: [1] }),
      'requests[1].input_types is [1]; it must be a list of at most 64 texts',
    ],
    [
      withSecond({ output_types: 'x' }),
      'requests[1].output_types is "x"; it must be a list of at most 64 texts',
    ],
    [withSecond({ model: 5 }), 'requests[1].model is 5; it must be a text of at most 1024 characters'],
    [withSecond({ stop: {} }), 'requests[1].stop is {}; it must be a text of at most 1024 characters'],
    [withSecond({ api_time: '1' }), 'requests[1].api_time is "1"; it must be a number from 0 to 10000000000'],
    [
      withSecond({ think_time: -5 }),
      'requests[1].think_time is -5; it must be a number from 0 to 10000000000',
    ],
    [withSecond({ ttft: true }), 'requests[1].ttft is true; it must be a number from 0 to 10000000000'],
    [
      { ...LINE, requests: [FIRST, { ...AGENT, agent_id: '' }] },
      'requests[1].agent_id is ""; it must be a text of 1 to 128 printable ASCII characters without blanks',
    ],
    [
      { ...LINE, requests: [FIRST, { ...AGENT, duration_ms: undefined }] },
      'requests[1].duration_ms is missing; it is a number from 0 to 10000000000',
    ],
    [
      { ...LINE, requests: [FIRST, AGENT, AGENT] },
      'requests[2].agent_id is agent_1, as that of another sub-agent of the same session',
    ],
    [
      { ...LINE, requests: [FIRST, { ...AGENT, requests: [{ ...FIRST, in: 'x' }] }] },
      'requests[1].requests[0].in is "x"; it must be a whole number from 1 to 4194304',
    ],
    [
      { ...LINE, requests: [FIRST, { ...AGENT, status: 4 }] },
      'requests[1].status is 4; it must be a text of at most 1024 characters',
    ],
    [
      { ...LINE, requests: [FIRST, { ...AGENT, tool_use_count: -4 }] },
      'requests[1].tool_use_count is -4; it must be a whole number from 0 to 9007199254740991',
    ],
  ])('refuses %j', (row, expected) => {
    expect(problem(row)).toBe(`trace.jsonl:3: ${expected}`);
  });

  it('says in the first line what a session trace is', () => {
    expect(problem({ ...LINE, id: 5 }, 1)).toMatch(
      /^trace\.jsonl:1: id is 5; .*; a session trace is JSONL, plain or \.gz: one session per line/,
    );
  });

  it(`reads sub-agents of sub-agents ${MAX_DEPTH} deep and no deeper`, () => {
    const nested = (depth: number): EntryRow[] =>
      depth === 0 ? [FIRST] : [FIRST, { ...AGENT, type: 'subagent', requests: nested(depth - 1) }];
    expect(parsed({ ...LINE, requests: nested(MAX_DEPTH) }).sessions.map(({ parent }) => parent)).toEqual([
      -1, 0, 1, 2, 3, 4, 5, 6, 7,
    ]);
    expect(problem({ ...LINE, requests: nested(MAX_DEPTH + 1) })).toMatch(
      /type is a sub-agent at depth 9; at most 8 are read$/,
    );
  });

  it('reads any line of the right form: every request once, parents first, prompts of equal ids where they were equal', () => {
    fc.assert(
      fc.property(sessionRows, (rows) => {
        for (const row of rows) {
          const line = parsed(row);
          const flat = (entries: readonly EntryRow[]): readonly EntryRow[] =>
            entries.flatMap((entry) => ('requests' in entry ? flat(entry.requests) : [entry]));
          const all = flat(row.requests);
          expect(line.sessions.flatMap(({ turns }) => turns)).toHaveLength(all.length);
          expect(line.uniqueIds).toBe(
            new Set(all.flatMap((entry) => ('hash_ids' in entry ? entry.hash_ids : []))).size,
          );
          for (const [index, { parent, startDelayMs, startsAfter, turns }] of line.sessions.entries()) {
            expect(parent).toBeLessThan(index);
            if (parent >= 0) {
              expect(startsAfter).toBeGreaterThanOrEqual(0);
              expect(startsAfter).toBeLessThan(line.sessions[parent]!.turns.length);
              expect(startDelayMs).toBeGreaterThanOrEqual(0);
            }
            for (const turn of turns) {
              expect(turn.ids).toHaveLength(Math.floor(turn.inputTokens / BLOCK));
              expect(turn.thinkMs).toBeGreaterThanOrEqual(0);
              expect(turn.outputTokens).toBeGreaterThan(0);
            }
          }
        }
      }),
    );
  });

  it('takes or refuses any JSON and any bytes, and fails in no other way', () => {
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.json().map((text) => new TextEncoder().encode(text)),
      fc
        .tuple(sessionRows, fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 0, max: 255 }))
        .map(([[row], at, byte]) => {
          const bytes = new TextEncoder().encode(JSON.stringify(row));
          bytes[at % bytes.length] = byte;
          return bytes;
        }),
    );
    let taken = 0;
    let refused = 0;
    fc.assert(
      fc.property(anything, (bytes) => {
        try {
          parseSessionLine(bytes, { name: 'trace.jsonl', line: 2 });
          taken += 1;
        } catch (thrown) {
          expect(thrown).toMatchObject({ code: 'PM_REPLAY_TRACE' });
          expect((thrown as Error).message).toMatch(/^trace\.jsonl:2: /);
          refused += 1;
        }
      }),
      { numRuns: 1000, seed: 7 },
    );
    expect(taken).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
  });
});
