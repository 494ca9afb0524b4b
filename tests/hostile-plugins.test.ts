// Every kind of hostile plugin beside a good one, over 1,000 seeded requests to simulated engines: the good one's envelopes are byte
// for byte those it makes alone.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exactJsonStringify, type KvHint } from '../src/plugin/index.ts';
import { BROKEN_SELECTIONS, HOSTILE_HINTS } from './support/hostile-plugins.ts';
import { type HostileRun, runBeside } from './support/hostile-run.ts';
import { shellWorkload } from './support/shell-workload.ts';

const PLUGINS = fileURLToPath(new URL('./support/hostile-plugins.ts', import.meta.url));
const REQUESTS = 1000;
const SEED = 11;
const WORKLOAD = shellWorkload(REQUESTS, 7);
/** Far above what a run needs: it must end whatever else the machine does. */
const TIMEOUT_MS = 120_000;

/** The default cost drawing as the fallback of a broken policy draws. */
const DEFAULT = `type: dynamo-default-cost-fn, parameters: { seed: ${SEED} }`;
/** Hostile plugins run in every request. */
const NEVER_TRIPS = 'containment: { breaker: { failures: 10000, overruns: 10000 } }';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'hostile-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(selection: string, hints: readonly string[], containment = NEVER_TRIPS): Promise<HostileRun> {
  const file = join(folder, 'policy.yaml');
  writeFileSync(
    file,
    `plugins: [${PLUGINS}]\nworker_selection: { aggregated: { ${selection}, hints: [${hints.join(', ')}] } }\n${containment}\n`,
  );
  return runBeside({ workload: WORKLOAD, policy: file, seed: SEED });
}

const GOOD = '{ type: good }';
const hostile = (which: string, name: string) =>
  `{ type: hostile, name: ${name}, parameters: { which: ${which} } }`;

/** An envelope's bytes without the actions of hostile policies, in the numbering of an envelope without them. */
function goodBytes(hint: KvHint | null): string {
  if (hint === null) return 'none';
  const actions = hint.actions
    .filter(({ action_type }) => action_type !== 'acme.bad')
    .map((action, index) => ({ ...action, action_id: `a${index + 1}` }));
  return exactJsonStringify({ ...hint, actions });
}

const badTexts = ({ hints }: HostileRun) =>
  hints.flatMap((hint) =>
    (hint?.actions ?? []).filter((one) => one.action_type === 'acme.bad').map(({ payload }) => payload.text),
  );

describe('beside a hostile plugin the good one makes the same envelopes as alone', () => {
  const alone = new Map<string, Promise<readonly string[]>>();
  const aloneUnder = (selection: string) => {
    const known = alone.get(selection) ?? run(selection, [GOOD]).then(({ hints }) => hints.map(goodBytes));
    alone.set(selection, known);
    return known;
  };

  it('which are 1,000, and many of which copy blocks', { timeout: TIMEOUT_MS }, async () => {
    const bytes = await aloneUnder(DEFAULT);
    expect(bytes.filter((text) => text.includes('acme.good'))).toHaveLength(REQUESTS);
    expect(bytes.filter((text) => text.includes('kv.fetch')).length).toBeGreaterThan(100);
  });

  it.each(HOSTILE_HINTS)('hint policy: %s', { timeout: TIMEOUT_MS }, async (which) => {
    const beside = await run(DEFAULT, [hostile(which, 'before'), GOOD, hostile(which, 'after')]);
    expect(beside.hints.map(goodBytes)).toEqual(await aloneUnder(DEFAULT));
    expect(beside.errors).toEqual([]);
    const results = new Set(
      beside.policies.filter(({ name }) => name !== 'good').map(({ result }) => result),
    );
    const mayAnswer = ['gives_away', 'mutates', 'slow'].includes(which);
    expect([...results]).toEqual([mayAnswer ? 'nothing' : which === 'keeps_references' ? 'sent' : 'dropped']);
    const texts = badTexts(beside);
    expect(texts).toHaveLength(which === 'keeps_references' ? 2 * REQUESTS : 0);
    // What was sent stays as it was when it was sent.
    expect(new Set(texts).size).toBe(texts.length);
  });

  it.each(BROKEN_SELECTIONS)('worker selection: %s', { timeout: TIMEOUT_MS }, async (how) => {
    const beside = await run(`type: broken, parameters: { how: ${how} }`, [GOOD]);
    expect(beside.hints.map(goodBytes)).toEqual(await aloneUnder(DEFAULT));
    expect(new Set(beside.chosenBy)).toEqual(new Set(['default_after_failure']));
    expect(beside.errors).toEqual([]);
  });

  it('worker selection that writes to all it is shown', { timeout: TIMEOUT_MS }, async () => {
    const beside = await run('type: scribbler, parameters: { scribbles: true }', [GOOD]);
    expect(beside.hints.map(goodBytes)).toEqual(
      await aloneUnder('type: scribbler, parameters: { scribbles: false }'),
    );
  });
});

describe('with the breaker of the default configuration', () => {
  it('a hint policy that throws is skipped in most requests, and the good one hears nothing of it', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const beside = await run(DEFAULT, [hostile('throws', 'before'), GOOD], '');
    const alone = await run(DEFAULT, [GOOD], '');
    expect(beside.hints.map(goodBytes)).toEqual(alone.hints.map(goodBytes));
    const results = beside.policies.filter(({ name }) => name === 'before');
    expect(results.slice(0, 6).map(({ result, reason }) => [result, reason])).toEqual([
      ...Array(5).fill(['dropped', 'threw']),
      ['skipped', 'tripped'],
    ]);
    const called = results.filter(({ result }) => result === 'dropped').length;
    // 5 calls until it trips, then one probe every 10 s.
    const probes = Math.floor(beside.lastsMs / 10_000);
    expect(called).toBeGreaterThan(5);
    expect(called).toBeLessThanOrEqual(5 + probes);
  });

  it('a broken worker selection is replaced by the default cost', { timeout: TIMEOUT_MS }, async () => {
    const { chosenBy, errors } = await run('type: broken, parameters: { how: rows_out_of_range }', [], '');
    expect(errors).toEqual([]);
    expect(chosenBy.slice(0, 6)).toEqual([
      ...Array(5).fill('default_after_failure'),
      'default_while_tripped',
    ]);
  });

  it('or requests are refused with 503, where the configuration says so', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const containment = 'containment: { tripped: { worker_selection: refuse } }';
    const { chosenBy, errors } = await run(
      'type: broken, parameters: { how: rows_out_of_range }',
      [],
      containment,
    );
    expect(chosenBy.slice(0, 5)).toEqual(Array(5).fill('default_after_failure'));
    expect(new Set(chosenBy)).toEqual(new Set(['default_after_failure']));
    expect(errors.length + chosenBy.length).toBe(REQUESTS);
    expect(errors.length).toBeGreaterThan(900);
    for (const error of errors) {
      expect([error.code, error.status, error.retryable]).toEqual(['PM_SELECTION_TRIPPED', 503, true]);
    }
  });
});
