// The JSON Schema of a configuration file, for editors, made from the schema that reads it. Values that only a function can read
// are described by the shape noted beside it; what holds between keys is the parser's to say.
import { z } from 'zod';
import { fileSchema } from './schema.ts';
import { SHAPES } from './values.ts';

/** A JSON Schema, or a part of one. */
export type JsonSchema = Record<string, unknown>;

/** The schema of the whole file, draft 2020-12. */
export function configJsonSchema(): JsonSchema {
  const { $schema, ...schema } = toJsonSchema(fileSchema);
  return {
    $schema,
    title: 'Pointsman configuration',
    description: 'router.yaml; every key is explained in docs/configuration.md',
    ...schema,
  };
}

function toJsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override({ zodSchema, jsonSchema }) {
      const shape = SHAPES.get(zodSchema);
      if (Array.isArray(shape)) jsonSchema.anyOf = shape.map(partOf);
      else if (shape !== undefined) Object.assign(jsonSchema, shape);
      if (zodSchema instanceof z.ZodObject) relax(zodSchema, jsonSchema);
    },
  });
}

function partOf(schema: z.ZodType): JsonSchema {
  const { $schema, ...part } = toJsonSchema(schema);
  return part;
}

/** Keys that may be left out are not required and may be null; zod says neither of what a transform fills in. */
function relax(object: z.ZodObject, json: JsonSchema): void {
  const properties = json.properties as Record<string, JsonSchema>;
  const required: string[] = [];
  for (const [key, value] of Object.entries(object.shape)) {
    if (!z.safeParse(value, undefined).success) required.push(key);
    const property = properties[key];
    if (property === undefined || !z.safeParse(value, null).success || isNullable(property)) continue;
    properties[key] = { anyOf: [property, { type: 'null' }] };
  }
  delete json.required;
  if (required.length > 0) json.required = required;
}

function isNullable({ anyOf }: JsonSchema): boolean {
  return Array.isArray(anyOf) && anyOf.some((one: JsonSchema) => one.type === 'null');
}
