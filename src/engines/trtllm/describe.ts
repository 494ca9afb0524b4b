// What `trtllm-serve` says of itself: its version, and the model it lists under its own name as owner.
import type { AskEngine, EngineDescription } from '../engine-description.ts';
import { NOTHING_SAID } from '../engine-description.ts';
import { isJsonObject, type JsonObject } from '../json-value.ts';

const OWNER = 'tensorrt_llm';

/** Describes a TensorRT-LLM server; null = what answers is none. @throws PointsmanError PM_ENGINE_UNREACHABLE */
export async function describeTrtllm(ask: AskEngine): Promise<EngineDescription | null> {
  const listed = await ask({ method: 'GET', path: '/v1/models' });
  const models = listed.status === 200 ? readOwnModels(listed.text) : [];
  if (models.length === 0) return null;
  const asked = await ask({ method: 'GET', path: '/version' });
  const version = asked.status === 200 ? parsed(asked.text)?.version : null;
  return { ...NOTHING_SAID, models, version: typeof version === 'string' ? version : null };
}

/** Models of an answer of `/v1/models` that TensorRT-LLM says are its own. Never throws. */
export function readOwnModels(text: string): string[] {
  const data = parsed(text)?.data;
  return (Array.isArray(data) ? (data as readonly unknown[]) : []).flatMap((entry) =>
    isJsonObject(entry) && entry.owned_by === OWNER && typeof entry.id === 'string' ? [entry.id] : [],
  );
}

function parsed(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
