// The one parser of configuration files: text in, either a complete configuration with warnings or every problem at once.
import { closeSync, openSync, readSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { PointsmanError, systemReason } from '../plugin/index.ts';
import { buildConfig } from './build.ts';
import { ConfigError } from './config-error.ts';
import { crossCheck } from './cross-checks.ts';
import { problemsOf } from './issues.ts';
import { noEffectWarnings } from './no-effect.ts';
import { olderSpellings, spelledTwice } from './older-spellings.ts';
import { joinPolicyFile } from './policy-file.ts';
import { type FileValue, fileSchema } from './schema.ts';
import { type ConfigSurroundings, readSecret } from './secrets.ts';
import { TextSource } from './text-source.ts';
import { parseTimingProfile, type StatedKind } from './timing-profile.ts';
import { TwoSources } from './two-sources.ts';
import type { ConfigPath, ConfigProblem, LoadedConfig } from './types.ts';
import { describeValue, isRecord } from './values.ts';
import { MAX_PROBLEMS, readYaml } from './yaml-document.ts';

/** Largest configuration file, in bytes. */
export const MAX_CONFIG_BYTES = 4 * 2 ** 20;

/** Reads secrets from the environment and from files of this machine. */
const MACHINE: ConfigSurroundings = {
  env: process.env,
  readFile: (path) => readCapped(path, MAX_CONFIG_BYTES).toString('utf8'),
};

/** What a configuration is read with. */
export interface LoadOptions {
  /** A policy file in the Rust router's grammar, or null for none; in place of `router_policy_config`. */
  readonly policyFile?: string | null;
}

/**
 * Reads and parses a configuration file, and the policy file that it or the options name.
 * @throws PointsmanError PM_CONFIG_UNREADABLE when there is no such file or it cannot be read
 * @throws ConfigError with every problem when the content cannot be used
 */
export function loadConfig(
  path: string,
  surroundings: ConfigSurroundings = MACHINE,
  options: LoadOptions = {},
): LoadedConfig {
  const loaded = parseFiles(new TextFile(readText(path), path), surroundings, options.policyFile);
  return { ...loaded, files: [resolve(path), ...loaded.files] };
}

/**
 * Reads and parses a policy file alone, in the Rust router's grammar, over the configuration of an empty file.
 * @throws as {@link loadConfig}
 */
export function loadPolicyFile(path: string, surroundings: ConfigSurroundings = MACHINE): LoadedConfig {
  return parseFiles(new TextFile('', 'defaults'), surroundings, path);
}

/**
 * Parses the text of a configuration file or of a policy file.
 * @param file name for messages; its folder is where relative paths start
 * @throws ConfigError with every problem, at most 100
 */
export function parseConfig(
  text: string,
  file: string,
  surroundings: ConfigSurroundings = MACHINE,
): LoadedConfig {
  return parseFiles(new TextFile(text, file), surroundings, undefined);
}

function parseFiles(
  main: TextFile,
  surroundings: ConfigSurroundings,
  policyPath: string | null | undefined,
): LoadedConfig {
  const policy = policyOf(main, surroundings, policyPath);
  const alone = main.text === '' && policy !== null;
  const source = alone ? policy.source : policy ? new TwoSources(main.source, policy.source) : main.source;
  const joined = policy && joinPolicyFile(main, policy);
  const written = joined?.written ?? main.written;
  const { file: value, problems, broken } = checkShape(written);
  problems.push(...(joined?.problems ?? []), ...crossCheck(value, broken));
  if (!['worker_selection', 'hint_policies', 'kv_hint_policy'].some((key) => broken.has(key))) {
    problems.push(...spelledTwice(value, source));
  }
  const { folder } = main.source;
  const profile = timingProfileOf(value, main, surroundings);
  const secrets = readSecrets(value, folder, surroundings, (problem) => problems.push(problem));
  if (problems.length > 0) throw new ConfigError(source, source.inOrder(problems).slice(0, MAX_PROBLEMS));
  const warnings = [
    ...noEffectWarnings(value, written),
    ...olderSpellings(value, written),
    ...(joined?.warnings ?? []),
  ];
  return {
    config: buildConfig(value, folder, secrets, profile?.kinds ?? []),
    source,
    warnings: source.inOrder(warnings),
    files: [policy?.source.file ?? [], profile?.file ?? []].flat().map((file) => resolve(file)),
    namedPolicyFile: namedPolicyFile(main),
  };
}

/** The policy file, if one is named; a broken or missing one is the whole answer. */
function policyOf(
  main: TextFile,
  surroundings: ConfigSurroundings,
  given: string | null | undefined,
): TextFile | null {
  if (given === null) return null;
  if (given !== undefined) return new TextFile(readText(given), given);
  const named = namedPolicyFile(main);
  if (named === null) return null;
  const { folder, file } = main.source;
  const path = resolve(folder, named);
  let text: string;
  try {
    text = surroundings.readFile(path);
  } catch (thrown) {
    const message = `the policy file ${named} cannot be read: ${systemReason(thrown)}`;
    throw new ConfigError(main.source, [error('PM_CONFIG_UNREADABLE', ['router_policy_config'], message)]);
  }
  return new TextFile(text, isAbsolute(named) ? named : join(dirname(file), named));
}

/** The timing profile, if one is named; a broken or missing one is the whole answer. */
function timingProfileOf(
  { router: { timing_profile: named } }: FileValue,
  main: TextFile,
  surroundings: ConfigSurroundings,
): { readonly file: string; readonly kinds: readonly StatedKind[] } | null {
  if (named === null) return null;
  const { folder, file } = main.source;
  let text: string;
  try {
    text = surroundings.readFile(resolve(folder, named));
  } catch (thrown) {
    const message = `the timing profile ${named} cannot be read: ${systemReason(thrown)}`;
    throw new ConfigError(main.source, [
      error('PM_CONFIG_UNREADABLE', ['router', 'timing_profile'], message),
    ]);
  }
  const profile = new TextFile(
    text,
    isAbsolute(named) ? named : join(dirname(file), named),
    'timing profile',
  );
  const parsed = parseTimingProfile(profile.written);
  if ('problems' in parsed) {
    throw new ConfigError(profile.source, profile.source.inOrder(parsed.problems).slice(0, MAX_PROBLEMS));
  }
  return { file: profile.source.file, kinds: parsed.kinds };
}

function namedPolicyFile({ written }: TextFile): string | null {
  const named = written.router_policy_config;
  return typeof named === 'string' && named !== '' ? named : null;
}

/** A text that is a YAML mapping. */
class TextFile {
  readonly text: string;
  readonly written: Readonly<Record<string, unknown>>;
  readonly source: TextSource;

  /** @throws ConfigError when it is none */
  constructor(text: string, file: string, what = 'policy file') {
    const folder = dirname(resolve(file));
    if (text.length > MAX_CONFIG_BYTES) {
      const message = `has ${text.length} characters; at most ${MAX_CONFIG_BYTES} are read`;
      throw new ConfigError(new TextSource(file, folder, '', null), [error('PM_CONFIG_VALUE', [], message)]);
    }
    const document = readYaml(text);
    this.text = text;
    this.source = new TextSource(file, folder, text, document);
    if (document.problems.length > 0) throw new ConfigError(this.source, document.problems);
    const written = document.value ?? {};
    if (!isRecord(written)) {
      const message = `the ${what} must be a YAML mapping, found ${describeValue(written)}`;
      throw new ConfigError(this.source, [error('PM_CONFIG_VALUE', [], message)]);
    }
    this.written = written;
  }
}

/** The file by the schema; top-level keys with problems are listed and left at their defaults, so that the rest can be checked. */
function checkShape(written: Readonly<Record<string, unknown>>): {
  file: FileValue;
  problems: ConfigProblem[];
  broken: ReadonlySet<string>;
} {
  const parsed = fileSchema.safeParse(written);
  if (parsed.success) return { file: parsed.data, problems: [], broken: new Set() };
  const problems = parsed.error.issues.flatMap(problemsOf);
  const broken = new Set(problems.map((problem) => String(problem.path[0])));
  const sound = Object.fromEntries(Object.entries(written).filter(([key]) => !broken.has(key)));
  return { file: fileSchema.parse(sound), problems, broken };
}

/** The configuration of an empty file: mode kv, no models, no workers; what `serve` starts from without a file. */
export function defaultConfig(): LoadedConfig {
  return parseConfig('', 'defaults', { env: {}, readFile: () => '' });
}

function readSecrets(
  file: FileValue,
  folder: string,
  surroundings: ConfigSurroundings,
  report: (problem: ConfigProblem) => unknown,
) {
  const { token } = file.admin;
  const adminToken = token && readSecret(token, ['admin', 'token'], folder, surroundings, report);
  const selectionSecret = file.services.selection?.token ?? null;
  const selectionToken =
    selectionSecret &&
    readSecret(selectionSecret, ['services', 'selection', 'token'], folder, surroundings, report);
  const keyHashes = (file.auth?.api_keys ?? []).map((key, index) => {
    const path = ['auth', 'api_keys', index, 'sha256'];
    const hash = readSecret(key.sha256, path, folder, surroundings, report);
    if (hash !== null && !/^[0-9a-f]{64}$/i.test(hash)) {
      report(
        error(
          'PM_CONFIG_SECRET',
          path,
          'the secret it names must be 64 hexadecimal digits (SHA-256 of the key)',
        ),
      );
    }
    return hash ?? '';
  });
  return { adminToken, selectionToken, keyHashes };
}

function error(code: ConfigProblem['code'], path: ConfigPath, message: string): ConfigProblem {
  return { severity: 'error', code, path, anchor: 'value', message };
}

/** The bytes of a file, of a pipe too, whose size nobody knows before; throws when there are more than `most`. */
function readCapped(path: string, most: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const parts: Buffer[] = [];
    for (let total = 0; ; ) {
      const part = Buffer.allocUnsafe(65_536);
      const count = readSync(file, part);
      if (count === 0) return Buffer.concat(parts, total);
      total += count;
      if (total > most) throw new RangeError(`it has more than ${most} bytes`);
      parts.push(part.subarray(0, count));
    }
  } finally {
    closeSync(file);
  }
}

/** @throws PointsmanError PM_CONFIG_UNREADABLE */
function readText(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readCapped(path, MAX_CONFIG_BYTES);
  } catch (thrown) {
    const reason = `cannot read the configuration file ${path}: ${systemReason(thrown)}`;
    throw new PointsmanError('PM_CONFIG_UNREADABLE', reason, { cause: thrown, details: { file: path } });
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (thrown) {
    const reason = `cannot read the configuration file ${path}: it is not UTF-8 text`;
    throw new PointsmanError('PM_CONFIG_UNREADABLE', reason, { cause: thrown, details: { file: path } });
  }
}
