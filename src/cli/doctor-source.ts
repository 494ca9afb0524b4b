// Which workers `doctor` asks when no file names them: those of a running router, or urls alone. Both become a configuration by the one
// schema, so that what they say is checked like any file.

import { parseConfig, type RouterConfig } from '../config/index.ts';
import { exactJsonStringify, PointsmanError } from '../plugin/index.ts';
import { adminGet } from './admin-client.ts';

const ASK_MS = 5_000;

/** Dialect of workers that are engines in the router's process. */
const IN_PROCESS = 'llamacpp-node';

type Json = Readonly<Record<string, unknown>>;

/** Whom `doctor` asks. */
export interface DoctorSource {
  readonly config: RouterConfig;
  /** Names of workers that nobody can ask from outside: they are engines in the router's own process. */
  readonly inProcess: readonly string[];
}

/** A configuration without its workers that have no wire. */
export function askable(config: RouterConfig): DoctorSource {
  const isInside = ({ inProcess = null }: RouterConfig['workers'][number]): boolean => inProcess !== null;
  return {
    config: { ...config, workers: config.workers.filter((worker) => !isInside(worker)) },
    inProcess: config.workers.filter(isInside).map(({ url }) => url),
  };
}

/** The workers that a running router has, with its models. @throws PointsmanError PM_ADMIN_ANSWER. */
export async function configOfRouter(admin: string, token: string | undefined): Promise<DoctorSource> {
  const [config, workers] = [
    await adminGet(admin, '/config', token),
    await adminGet(admin, '/workers', token),
  ];
  if (!isObject(config) || !Array.isArray(workers)) {
    throw new PointsmanError(
      'PM_ADMIN_ANSWER',
      `${admin} has no /config and /workers, so it is not the admin API; --admin takes the address that serve prints as Admin`,
    );
  }
  const configured: unknown[] = Array.isArray(config.workers) ? config.workers : [];
  const models = isObject(config.models) ? Object.entries(config.models) : [];
  const all = workers.map((worker: unknown) => (isObject(worker) ? worker : {}));
  const isInside = ({ dialect }: Json): boolean => dialect === IN_PROCESS;
  return {
    config: parsed({
      models: Object.fromEntries(
        models.map(([name, model]) => [name, modelOf(isObject(model) ? model : {})]),
      ),
      workers: all
        .filter((said) => !isInside(said))
        .map((said) => {
          const same = configured.find((one) => isObject(one) && one.url === said.url);
          return workerOf(said, isObject(same) ? same : {});
        }),
    }),
    inProcess: all.filter(isInside).map(({ url }) => String(url)),
  };
}

/** Engines by their urls; each is asked what it serves. @throws PointsmanError PM_ENGINE_UNREACHABLE. */
export async function configOfUrls(urls: readonly string[]): Promise<RouterConfig> {
  const workers = await Promise.all(urls.map(async (url) => ({ url, model: await servedModel(url) })));
  const models = Object.fromEntries(workers.map(({ model }) => [model, { tokens: { source: 'estimate' } }]));
  return parsed({ models, workers });
}

async function servedModel(url: string): Promise<string> {
  if (!URL.canParse(url))
    throw new PointsmanError(
      'PM_USAGE',
      `--worker takes urls such as http://127.0.0.1:8000, not "${url.slice(0, 80)}"`,
    );
  try {
    const answer = await fetch(`${url.replace(/\/+$/, '')}/v1/models`, {
      signal: AbortSignal.timeout(ASK_MS),
    });
    const body: unknown = await answer.json();
    const list: unknown[] = isObject(body) && Array.isArray(body.data) ? body.data : [];
    const [first] = list;
    if (isObject(first) && typeof first.id === 'string') return first.id;
  } catch (cause) {
    throw new PointsmanError('PM_ENGINE_UNREACHABLE', `no engine answers GET /v1/models at ${url}`, {
      cause,
    });
  }
  throw new PointsmanError('PM_ENGINE_UNREACHABLE', `GET /v1/models at ${url} names no model`);
}

function modelOf({ blockSize, eagle, routingGroup, servedAs, tokens }: Json): Json {
  return {
    ...{ served_as: servedAs, block_size: blockSize, eagle, routing_group: routingGroup },
    tokens: isObject(tokens) ? tokensOf(tokens) : undefined,
  };
}

/** In the words of the file, as everything that is checked by its schema. */
function tokensOf({ concurrency, renderAs, source, template, timeoutMs, tokenizer }: Json): Json {
  const timeout = typeof timeoutMs === 'number' ? `${timeoutMs}ms` : undefined;
  return { source, tokenizer, template, render_as: renderAs, timeout, concurrency };
}

function workerOf(said: Json, configured: Json): Json {
  const ranks: unknown[] = Array.isArray(said.ranks) ? said.ranks : [];
  const heard = ranks.flatMap((one) => {
    if (!isObject(one) || !isObject(one.kv_events) || typeof one.kv_events.endpoint !== 'string') return [];
    const { endpoint: connect, replay_endpoint: replay } = one.kv_events;
    // Those that are asked for stand in the configuration.
    if (connect.startsWith('http')) return [];
    return [[String(one.rank), { connect, replay }] as const];
  });
  const events = isObject(configured.kvEvents) ? configured.kvEvents : {};
  const numbers = ranks.flatMap((one) => (isObject(one) && typeof one.rank === 'number' ? [one.rank] : []));
  return {
    ...{ id: said.id, model: said.model, url: said.url, dialect: said.dialect, role: said.role },
    ranks: { first: numbers.length === 0 ? 0 : Math.min(...numbers), count: Math.max(1, ranks.length) },
    kv_events: { ...Object.fromEntries(heard), ...events },
    adapters: said.adapters,
    capabilities: configured.capabilities ?? 'ask',
  };
}

function parsed(file: Json): RouterConfig {
  // JSON is YAML; members that were not said are left out.
  return parseConfig(exactJsonStringify(withoutGaps(file)), 'workers').config;
}

function withoutGaps(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutGaps);
  if (!isObject(value)) return value;
  const said = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  return Object.fromEntries(said.map(([name, member]) => [name, withoutGaps(member)]));
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
