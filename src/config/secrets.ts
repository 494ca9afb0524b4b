// Secrets are named in the file and read from the environment or from a file of their own; errors never repeat them.
import { resolve } from 'node:path';
import { systemReason } from '../plugin/index.ts';
import type { ConfigPath, ConfigProblem } from './types.ts';
import type { SecretPlace } from './values.ts';

/** Characters of a secret; more is a mistake in the path. */
const MAX_SECRET = 65_536;

/** What a configuration reads besides its own text. */
export interface ConfigSurroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Text of the file at an absolute path; throws when it cannot be read. */
  readFile(path: string): string;
}

/** Reads a secret, without the newline at its end; reports a problem and answers null when it is not there. */
export function readSecret(
  place: SecretPlace,
  path: ConfigPath,
  folder: string,
  surroundings: ConfigSurroundings,
  report: (problem: ConfigProblem) => unknown,
): string | null {
  const fail = (message: string): null => {
    report({ severity: 'error', code: 'PM_CONFIG_SECRET', path, anchor: 'value', message });
    return null;
  };
  if ('env' in place) {
    const value = surroundings.env[place.env];
    if (value === undefined) return fail(`environment variable ${place.env} is not set`);
    return checked(value, `environment variable ${place.env}`, fail);
  }
  let content: string;
  try {
    content = surroundings.readFile(resolve(folder, place.file));
  } catch (thrown) {
    return fail(`secret file ${place.file} cannot be read: ${systemReason(thrown)}`);
  }
  return checked(content, `secret file ${place.file}`, fail);
}

function checked(content: string, where: string, fail: (message: string) => null): string | null {
  const value = content.replace(/\r?\n$/, '');
  if (value === '') return fail(`${where} is empty`);
  if (value.length > MAX_SECRET) return fail(`${where} holds more than ${MAX_SECRET} characters`);
  return value;
}
