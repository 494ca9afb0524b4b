// The log as plugins get it. No compiler looks at a plugin: one that gives the fields first, as other loggers take them, is understood,
// and what is no text or no fields never becomes fields named by numbers.
import { errorText, type LogFields, type Logger } from '../plugin/index.ts';

/** A log line in the order of {@link Logger}. */
export interface LogCall {
  readonly message: string;
  readonly fields: LogFields | undefined;
}

/** What a plugin meant by the arguments of a log call: text and fields in either order, an error as its text. */
export function logCall(first: unknown, second: unknown): LogCall {
  if (typeof first !== 'string' && typeof second === 'string') {
    return { message: second, fields: fieldsOf(first) };
  }
  if (typeof first === 'string') return { message: first, fields: fieldsOf(second) };
  // A lone object of fields has no text; an error, and anything else, has one.
  const fields = first instanceof Error ? undefined : fieldsOf(first);
  if (fields === undefined) return { message: errorText(first), fields: fieldsOf(second) };
  return { message: 'a plugin logged fields without a text', fields };
}

/** A log for one plugin. */
export function pluginLog(log: Logger): Logger {
  const line =
    (level: keyof Logger) =>
    (first: unknown, second?: unknown): void => {
      const { message, fields } = logCall(first, second);
      log[level](message, fields);
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}

/** An object's members; an error counts as its text, anything else as nothing. */
function fieldsOf(given: unknown): LogFields | undefined {
  if (given instanceof Error) return { error: errorText(given) };
  return isFields(given) ? given : undefined;
}

function isFields(given: unknown): given is LogFields {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}
