// Reading JSON that engines wrote: unknown until shown otherwise.

/** A JSON object, members unknown. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object (no list, not null). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A non-negative safe integer, or null for anything else. */
export function countOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
