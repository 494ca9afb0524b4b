// What no single key can show: names that must exist, ids that must differ, settings that exclude each other.
import { isIP } from 'node:net';
import { ROLES } from '../plugin/index.ts';
import { checkInProcess } from './in-process-workers.ts';
import { didYouMean, nameList } from './nearest.ts';
import { polledEventsProblem } from './polled-events.ts';
import { checkQueueProfile, QUEUE_KEYS } from './queue-profile.ts';
import type { FileValue } from './schema.ts';
import type { ConfigPath, ConfigProblem, ProblemAnchor } from './types.ts';

/** What names of sessions take of a tenant. */
const MAX_TENANT = 256;

type Report = (
  path: ConfigPath,
  message: string,
  anchor?: ProblemAnchor,
  code?: ConfigProblem['code'],
) => void;

/**
 * Problems between the keys of a file.
 * @param broken top-level keys that failed the schema and stand at their defaults here: what rests on them is not checked
 */
export function crossCheck(file: FileValue, broken: ReadonlySet<string>): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const report: Report = (path, message, anchor = 'value', code = 'PM_CONFIG_CONFLICT') => {
    problems.push({ severity: 'error', code, path, anchor, message });
  };
  const sound = (...keys: readonly (keyof FileValue)[]): boolean => !keys.some((key) => broken.has(key));
  if (sound('admin', 'listen')) checkDoors(file, report);
  if (sound('services')) checkSelectionService(file, report);
  if (sound('auth', 'models')) checkKeys(file, report);
  if (sound('models')) checkModels(file, report);
  if (sound('models', 'workers')) checkWorkers(file, report);
  if (sound('models', 'workers', 'router')) checkAdapters(file, report);
  if (sound('worker_selection')) checkSelection(file, report);
  if (sound(...QUEUE_KEYS)) checkQueueProfile(file, [], report);
  if (sound('models')) {
    for (const [name, model] of Object.entries(file.models))
      checkQueueProfile(model, ['models', name], report);
  }
  return problems;
}

function checkDoors(file: FileValue, report: Report): void {
  const { admin, listen } = file;
  if (!isLoopback(admin.host) && admin.token === null) {
    report(
      ['admin', 'host'],
      `the admin API on ${admin.host} can be reached from other machines, so it needs a token; add token: { env: NAME }, or use 127.0.0.1`,
    );
  }
  if (listen.port !== 0 && listen.port === admin.port) {
    report(['admin', 'port'], `port ${admin.port} is also listen.port; the two APIs need different ports`);
  }
}

function checkSelectionService({ services: { selection } }: FileValue, report: Report): void {
  if (selection === null || isLoopback(selection.host) || selection.token !== null) return;
  report(
    ['services', 'selection', 'host'],
    `the selection service on ${selection.host} can be reached from other machines, so it needs a token; add token: { env: NAME }, or use 127.0.0.1`,
  );
}

function checkKeys(file: FileValue, report: Report): void {
  const { auth } = file;
  if (auth === null) return;
  if (auth.api_keys.length === 0) {
    report(['auth'], 'without api_keys nobody could call; list keys, or remove auth to serve everybody');
  }
  reportRepeats(
    auth.api_keys.map((key) => key.name),
    (index, name) => report(['auth', 'api_keys', index, 'name'], `API key name "${name}" is given twice`),
  );
  const known = callableNames(file);
  for (const [index, key] of auth.api_keys.entries()) {
    if ((key.tenant ?? '').length > MAX_TENANT) {
      report(['auth', 'api_keys', index, 'tenant'], `a tenant has at most ${MAX_TENANT} characters`);
    }
    for (const [position, name] of (key.models ?? []).entries()) {
      if (known.size === 0 || known.has(name)) continue;
      report(
        ['auth', 'api_keys', index, 'models', position],
        `no model or alias is named "${name}"${didYouMean(name, known.keys())}`,
      );
    }
  }
}

/** Names clients may send. */
function callableNames(file: FileValue): Set<string> {
  return new Set(Object.entries(file.models).flatMap(([name, model]) => [name, ...model.aliases]));
}

function checkModels(file: FileValue, report: Report): void {
  const owners = new Map(Object.keys(file.models).map((name) => [name, name]));
  for (const [name, model] of Object.entries(file.models)) {
    const path = ['models', name];
    if (name === '') report(path, 'a model needs a non-empty name', 'key', 'PM_CONFIG_VALUE');
    for (const [index, alias] of model.aliases.entries()) {
      const owner = owners.get(alias);
      if (owner !== undefined)
        report([...path, 'aliases', index], `"${alias}" already names model "${owner}"`);
      else owners.set(alias, name);
    }
    const { source, template, tokenizer } = model.tokens;
    if (source === 'local' && tokenizer === null) {
      const message = 'is required with source: local: the path of a tokenizer.json';
      report([...path, 'tokens', 'tokenizer'], message, 'parent', 'PM_CONFIG_MISSING');
    }
    if (source === 'engine' || source === 'estimate') {
      const stray = tokenizer === null ? (template === null ? null : 'template') : 'tokenizer';
      if (stray !== null)
        report([...path, 'tokens', stray], `is read only with source: local, not source: ${source}`, 'key');
    } else if (source === null && tokenizer === null && template !== null) {
      report(
        [...path, 'tokens', 'template'],
        'needs a tokenizer beside it: the path of a tokenizer.json',
        'key',
      );
    }
    checkTokenKeys(model.tokens, [...path, 'tokens'], report);
  }
}

/** Keys that only one source reads. */
function checkTokenKeys(
  tokens: FileValue['models'][string]['tokens'],
  path: ConfigPath,
  report: Report,
): void {
  const source = tokens.source ?? (tokens.tokenizer === null ? 'engine' : 'local');
  const stray = (key: 'render_as' | 'timeout' | 'concurrency', reader: 'local' | 'engine'): void => {
    if (tokens[key] === null || source === reader) return;
    report([...path, key], `is read only with source: ${reader}, not source: ${source}`, 'key');
  };
  stray('render_as', 'local');
  stray('timeout', 'engine');
  stray('concurrency', 'engine');
}

function checkWorkers(file: FileValue, report: Report): void {
  const names = Object.keys(file.models);
  for (const [index, worker] of file.workers.entries()) {
    const path = ['workers', index];
    if (worker.model === null && names.length !== 1) {
      report(
        [...path, 'model'],
        names.length === 0
          ? 'no model is configured; add one to models, for example models: { my-model: {} }'
          : 'is required: several models are configured, so each worker says which key of models it serves',
        'parent',
        'PM_CONFIG_MISSING',
      );
    } else if (worker.model !== null && !Object.hasOwn(file.models, worker.model)) {
      const known =
        names.length === 0
          ? '; no model is configured'
          : didYouMean(worker.model, names) || `; known: ${nameList(names)}`;
      report([...path, 'model'], `no model is named "${worker.model}"${known}`);
    }
    const model = file.models[worker.model ?? names[0] ?? ''];
    checkInProcess(worker, model?.block_size ?? null, path, report);
    const { first, count } = worker.ranks;
    for (const [rank, { connect, bind, poll, replay, topic }] of Object.entries(worker.kv_events)) {
      if (poll) {
        const others = connect !== null || bind !== null || replay !== null || topic !== '';
        const modelBlock = file.models[worker.model ?? names[0] ?? '']?.block_size ?? null;
        const problem = polledEventsProblem(worker.dialect, others, modelBlock);
        if (problem !== null) report([...path, 'kv_events', rank, 'poll'], problem);
      } else if ((connect === null) === (bind === null)) {
        report(
          [...path, 'kv_events', rank],
          connect === null
            ? 'needs the address of the stream: connect where the engine listens, bind where the engine connects to'
            : 'has both connect and bind; name the one of them that the engine is set up for',
        );
      }
      const inside =
        /^(?:0|[1-9]\d{0,8})$/.test(rank) && Number(rank) >= first && Number(rank) < first + count;
      if (inside) continue;
      const range = count === 1 ? `only rank ${first}` : `ranks ${first} to ${first + count - 1}`;
      report([...path, 'kv_events', rank], `this worker has ${range}, not "${rank}"`, 'key');
    }
  }
  reportRepeats(
    file.workers.map((worker) => worker.id),
    (index, id) => report(['workers', index, 'id'], `worker id ${id} is given twice`),
  );
  reportRepeats(
    file.workers.map(({ url }) => url),
    (index, url) => report(['workers', index, 'url'], `a worker with the url ${url} is already listed`),
  );
}

/** Router modes that serve LoRA adapters, as in the Rust router. */
const ADAPTER_MODES: readonly string[] = ['kv', 'round-robin', 'random'];

/** The name of an adapter alone must say which model it belongs to. */
function checkAdapters(file: FileValue, report: Report): void {
  const onlyModel = Object.keys(file.models)[0] ?? '';
  const callable = callableNames(file);
  const owners = new Map<string, string>();
  const { mode } = file.router;
  for (const [index, { adapters, model }] of file.workers.entries()) {
    const path = ['workers', index, 'adapters'];
    const of = model ?? onlyModel;
    if (adapters.length > 0 && !ADAPTER_MODES.includes(mode)) {
      report(path, `adapters need router.mode ${ADAPTER_MODES.join(', ')}; it is ${mode}`, 'key');
    }
    for (const [position, adapter] of adapters.entries()) {
      const owner = owners.get(adapter) ?? of;
      owners.set(adapter, owner);
      if (callable.has(adapter)) {
        report([...path, position], `"${adapter}" names a model already; give the adapter another name`);
      } else if (owner !== of) {
        report(
          [...path, position],
          `"${adapter}" is an adapter of model "${owner}" already; give this one another name`,
        );
      }
    }
    reportRepeats(adapters, (position, name) =>
      report([...path, position], `adapter "${name}" is given twice`),
    );
  }
}

function checkSelection(file: FileValue, report: Report): void {
  const selection = file.worker_selection;
  if (selection === null) return;
  for (const role of ROLES) {
    const entry = selection[role];
    if (!entry || 'bare' in entry) continue;
    const path = ['worker_selection', role];
    if (entry.type !== null && entry.instance !== null) {
      report([...path, 'instance'], 'a role has either a type or an instance, not both', 'key');
    }
    if (entry.instance !== null && entry.parameters !== null) {
      report([...path, 'parameters'], 'an instance has its own parameters; move these to it', 'key');
    }
    if (entry.type === null && entry.instance === null && entry.parameters !== null) {
      report([...path, 'parameters'], 'need a type beside them', 'key');
    }
    reportRepeats(
      (entry.hints ?? []).map((hint) => hint.name ?? hint.type),
      (index, name) =>
        report(
          [...path, 'hints', index],
          `hint policy name "${name}" is used twice in ${role}; give one of them another name`,
        ),
    );
  }
  for (const [index, { name }] of selection.instances.entries()) {
    if (name !== 'default') continue;
    report(
      ['worker_selection', 'instances', index, 'name'],
      '"default" names the built-in policy; use another name',
    );
  }
  reportRepeats(
    selection.instances.map((instance) => instance.name),
    (index, name) =>
      report(['worker_selection', 'instances', index, 'name'], `instance "${name}" is defined twice`),
  );
}

function reportRepeats<T>(values: readonly (T | null)[], report: (index: number, value: T) => void): void {
  const seen = new Set<T>();
  for (const [index, value] of values.entries()) {
    if (value === null) continue;
    if (seen.has(value)) report(index, value);
    seen.add(value);
  }
}

/** Whether only this machine can reach a host name or address. */
export function isLoopback(host: string): boolean {
  if (isIP(host) === 4) return host.startsWith('127.');
  return host === '::1' || host === 'localhost';
}
