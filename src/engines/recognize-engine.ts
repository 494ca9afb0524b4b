// What an engine is, by its own account: the dialect that configuration names is asked to describe it, and for dialect `auto` each of
// them in turn, until one knows the engine.
import type { RecognizedEngine, Worker } from '../fleet/index.ts';
import type { EngineDialect } from './dialect.ts';
import { AUTO, advertisedDialect } from './dialects.ts';
import type { AskEngine, EngineDescription } from './engine-description.ts';

/**
 * Asks a worker's engine what it is. Undefined = nobody can ask an engine of its dialect; null = the engine is another one, or for
 * dialect `auto` none that is known.
 * @throws PointsmanError PM_ENGINE_UNREACHABLE when the engine stops answering.
 */
export async function recognizeEngine(
  worker: Pick<Worker, 'spec' | 'capabilities'>,
  ask: AskEngine,
  dialects: ReadonlyMap<string, EngineDialect>,
): Promise<RecognizedEngine | null | undefined> {
  const { dialect: name } = worker.spec;
  const only = name === AUTO ? advertisedDialect(worker.capabilities, dialects) : dialects.get(name);
  const asked = only === null ? [...dialects.values()] : [only];
  let described = false;
  // One question asked twice would be answered twice: several dialects begin with the same.
  const once = askedOnce(ask);
  for (const dialect of asked) {
    if (dialect?.describe === undefined) continue;
    described = true;
    const description = await dialect.describe(once);
    if (description !== null) return { dialect: dialect.name, description: bounded(description) };
  }
  return described ? null : undefined;
}

/** Names and versions stand in the log, in status and in memory for as long as a worker lives: what is longer is no name. */
const MAX_TEXT = 1024;
const MAX_MODELS = 4096;
/** Of a chat template. */
const MAX_TEMPLATE = 256 * 1024;

function bounded(said: EngineDescription): EngineDescription {
  const within = (text: string | null, most: number): string | null =>
    text !== null && text.length <= most ? text : null;
  const isShort = (text: string): boolean => text.length <= MAX_TEXT;
  const reachable = [...(said.kvEvents ?? [])].every(
    ([, { address, replay, topic }]) => isShort(address) && isShort(replay ?? '') && isShort(topic),
  );
  return {
    ...said,
    version: within(said.version, MAX_TEXT),
    models: said.models?.filter(isShort).slice(0, MAX_MODELS) ?? null,
    kvEvents: reachable ? said.kvEvents : null,
    chatTemplate: within(said.chatTemplate, MAX_TEMPLATE),
  };
}

/** Remembers answers to questions without a body. */
function askedOnce(ask: AskEngine): AskEngine {
  const answers = new Map<string, ReturnType<AskEngine>>();
  return (question) => {
    if (question.method !== 'GET' || question.body !== undefined) return ask(question);
    const known = answers.get(question.path);
    if (known !== undefined) return known;
    const answer = ask(question);
    answers.set(question.path, answer);
    return answer;
  };
}
