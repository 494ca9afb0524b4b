// Which workers `doctor` asks when no file names them: those of a running router, or urls alone. Both become a configuration by the one
// schema, so that what they say is checked like any file.

import { parseConfig, type RouterConfig } from '../config/index.ts';
import { exactJsonStringify, PointsmanError } from '../plugin/index.ts';
import { adminGet } from './admin-client.ts';

const ASK_MS = 5_000;

type Json = Readonly<Record<string, unknown>>;

/** The workers that a running router has, with its models. @throws PointsmanError PM_ADMIN_ANSWER. */
export async function configOfRouter(admin: string, token: string | undefined): Promise<RouterConfig> {
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
  return parsed({
    models: Object.fromEntries(models.map(([name, model]) => [name, modelOf(isObject(model) ? model : {})])),
    workers: workers.map((worker: unknown) => {
      const said = isObject(worker) ? worker : {};
      const same = configured.find((one) => isObject(one) && one.url === said.url);
      return workerOf(said, isObject(same) ? same : {});
    }),
  });
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
  return { served_as: servedAs, block_size: blockSize, eagle, routing_group: routingGroup, tokens };
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
    ranks: { first: Math.min(...numbers, 0), count: Math.max(1, ranks.length) },
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
