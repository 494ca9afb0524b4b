import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ParameterSchema, SchemaIssue } from '../plugin/index.ts';
import { parseParameters } from './parameters.ts';

/** A schema of another library: it answers these issues, or the value as given. */
const schemaOf = (issues: readonly SchemaIssue[] | null, later = false): ParameterSchema => ({
  '~standard': {
    version: 1,
    vendor: 'test',
    validate(value) {
      const result = issues === null ? { value } : { issues };
      return later ? Promise.resolve(result) : result;
    },
  },
});

const faultsOf = async (schema: ParameterSchema | undefined, given: unknown) =>
  (await parseParameters(schema, given)).faults;

describe('parsing parameters', () => {
  it('takes absent and null as an empty mapping and applies defaults', async () => {
    const schema = z.strictObject({ n: z.int().default(64) });
    for (const given of [undefined, null, {}]) {
      expect(await parseParameters(schema, given)).toEqual({ value: { n: 64 }, faults: null });
    }
  });

  it('gives the output of the schema, transforms included', async () => {
    const schema = z.object({ at: z.string().transform((text) => new Date(text)) });
    const parsed = await parseParameters(schema, { at: '2026-01-01T00:00:00Z' });
    expect(parsed).toEqual({ value: { at: new Date(Date.UTC(2026, 0, 1)) }, faults: null });
  });

  it('waits for asynchronous schemas', async () => {
    expect(await parseParameters(schemaOf(null, true), { a: 1 })).toEqual({ value: { a: 1 }, faults: null });
    const taken = z.object({ name: z.string().refine(async (name) => name !== 'taken', 'is taken') });
    expect(await faultsOf(taken, { name: 'taken' })).toEqual([
      { path: ['name'], anchor: 'value', message: 'is taken' },
    ]);
  });

  it('without a schema takes none', async () => {
    expect(await parseParameters(undefined, {})).toEqual({ value: {}, faults: null });
    expect(await faultsOf(undefined, { a: 1, b: 2 })).toEqual([
      { path: ['a'], anchor: 'key', message: 'unknown key "a"' },
      { path: ['b'], anchor: 'key', message: 'unknown key "b"' },
    ]);
  });

  it.each([[[1]], ['text'], [7], [true]])('refuses %j: parameters are a mapping', async (given) => {
    expect(await faultsOf(z.object({}), given)).toEqual([
      { path: [], anchor: 'value', message: 'must be a mapping' },
    ]);
  });

  it('has a fault for a schema that refuses without an issue', async () => {
    const schema: ParameterSchema = {
      '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [] }) },
    };
    expect(await faultsOf(schema, {})).toEqual([
      { path: [], anchor: 'key', message: 'the schema refuses them without a reason' },
    ]);
  });

  it('points a schema that throws or rejects at the parameters', async () => {
    const schema: ParameterSchema = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: () => {
          throw new Error('bad day');
        },
      },
    };
    expect(await faultsOf(schema, {})).toEqual([
      { path: [], anchor: 'key', message: 'the schema threw: bad day' },
    ]);
  });
});

describe('issues of other libraries', () => {
  it('whose path elements are objects are followed', async () => {
    const issue = { message: 'no', path: [{ key: 'list' }, { key: 1 }, { key: 'name' }] };
    expect(await faultsOf(schemaOf([issue]), { list: [{}, { name: 3 }] })).toEqual([
      { path: ['list', 1, 'name'], anchor: 'value', message: 'no' },
    ]);
  });

  it('about a key that is not there point at the mapping that lacks it', async () => {
    expect(await faultsOf(schemaOf([{ message: 'required', path: ['a', 'b'] }]), { a: {} })).toEqual([
      { path: ['a', 'b'], anchor: 'parent', message: 'required' },
    ]);
  });

  it('that expect never are about an unknown key', async () => {
    const issue = { message: 'Invalid key', path: ['limti'], expected: 'never' };
    expect(await faultsOf(schemaOf([issue]), { limti: 1 })).toEqual([
      { path: ['limti'], anchor: 'key', message: 'unknown key "limti"' },
    ]);
  });

  it('without a path point at the parameters', async () => {
    expect(await faultsOf(schemaOf([{ message: 'either a or b' }]), { a: 1, b: 2 })).toEqual([
      { path: [], anchor: 'key', message: 'either a or b' },
    ]);
  });
});

it('names the nearest key at every depth, and all keys where none is near', async () => {
  const schema = z.strictObject({
    id: z.bigint().optional(),
    list: z.array(z.strictObject({ name: z.string().optional(), weight: z.number().optional() })),
  });
  expect(await faultsOf(schema, { list: [{ wieght: 1 }, { zebra: 1 }] })).toEqual([
    { path: ['list', 0, 'wieght'], anchor: 'key', message: 'unknown key "wieght" (did you mean "weight"?)' },
    { path: ['list', 1, 'zebra'], anchor: 'key', message: 'unknown key "zebra"; known: name, weight' },
  ]);
});
