// What a llama.cpp server says of itself: `GET /props` for its slots, context and template, `GET /v1/models` for the names it serves.
import { type AskEngine, type EngineDescription, NOTHING_SAID } from '../engine-description.ts';
import { countOrNull, isJsonObject, type JsonObject } from '../json-value.ts';

const MAX_TEXT = 1024;
const MAX_MODELS = 4096;

/** Describes a llama.cpp server; null = what answers is none. @throws PointsmanError PM_ENGINE_UNREACHABLE */
export async function describeLlamaServer(ask: AskEngine): Promise<EngineDescription | null> {
  const asked = await ask({ method: 'GET', path: '/props' });
  const props = asked.status === 200 ? readProps(asked.text) : null;
  if (props === null) return null;
  const models = await ask({ method: 'GET', path: '/v1/models' });
  return { ...NOTHING_SAID, ...props, models: models.status === 200 ? readModelNames(models.text) : null };
}

/** What `/props` says of a server. */
export type ServerProps = Pick<
  EngineDescription,
  'version' | 'maxModelLength' | 'ranks' | 'prefixCaching' | 'chatTemplate'
>;

/** Reads `GET /props`; null = it is no llama.cpp server's. */
export function readProps(text: string): ServerProps | null {
  const props = parsed(text);
  const slots = positive(props?.total_slots);
  if (props === null || slots === null) return null;
  const settings = isJsonObject(props.default_generation_settings) ? props.default_generation_settings : null;
  return {
    version: textOrNull(props.build_info, MAX_TEXT),
    // Of one slot.
    maxModelLength: positive(settings?.n_ctx),
    ranks: slots,
    prefixCaching: true,
    chatTemplate: textOrNull(props.chat_template, Number.POSITIVE_INFINITY),
  };
}

/** Names in `GET /v1/models`; null = it lists none. */
export function readModelNames(text: string): readonly string[] | null {
  const data = parsed(text)?.data;
  if (!Array.isArray(data)) return null;
  const names = data.slice(0, MAX_MODELS).flatMap((entry: unknown) => {
    const name = isJsonObject(entry) ? textOrNull(entry.id, MAX_TEXT) : null;
    return name === null ? [] : [name];
  });
  return names.length === 0 ? null : names;
}

function positive(value: unknown): number | null {
  const count = countOrNull(value);
  return count === 0 ? null : count;
}

function textOrNull(value: unknown, most: number): string | null {
  return typeof value === 'string' && value !== '' && value.length <= most ? value : null;
}

function parsed(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
