// The probe prompts of `doctor`: made of random token ids or words, so that nobody has them cached and they say nothing.
import type { RouterConfig } from '../config/index.ts';
import type { EngineReport, EngineTransport } from '../engines/index.ts';
import type { BlockSizes, Fleet, Worker } from '../fleet/index.ts';
import type { ParityMonitor } from '../parity/index.ts';
import { type Clock, errorText, type Logger, PointsmanError, type WorkerId } from '../plugin/index.ts';
import type { TokenSource } from '../tokens/index.ts';

/** Blocks of a probe prompt. */
export const PROBE_BLOCKS = 4;

/** How long one answer may take, ms. */
const ANSWER_MS = 15_000;

/** One probe. */
export interface ProbePrompt {
  readonly worker: Worker;
  readonly rank: number;
  /** What the router hashes. */
  readonly tokens: Uint32Array;
  /** Chat messages in place of the ids; absent = the ids are sent. */
  readonly messages?: readonly object[];
  readonly cacheSalt?: string;
  /** Adapter that is asked for; absent = the model itself. */
  readonly adapter?: string;
  /** Nobody has sent it before, in its namespace. */
  readonly isUnique: boolean;
}

/** Who sends probes, and hears of them. */
export interface ProbeSender {
  readonly blockSizes: BlockSizes;
  readonly clock: Clock;
  readonly config: Pick<RouterConfig, 'models'>;
  readonly fleet: Pick<Fleet, 'groupOf'>;
  readonly monitor: Pick<ParityMonitor, 'answered'>;
  readonly transport: EngineTransport;
  /** Told of prompts of which a worker computed whole blocks. */
  computed(worker: WorkerId, blocks: number): void;
}

/** What came of it. */
export type ProbeResult =
  | { readonly kind: 'answered'; readonly report: EngineReport }
  | { readonly kind: 'failed'; readonly problem: string };

let probes = 0;

/** Sends a probe as the router would send a request, and hands the answer to the monitor. */
export async function sendProbe(sender: ProbeSender, prompt: ProbePrompt): Promise<ProbeResult> {
  const { blockSizes, clock, computed, config, fleet, monitor, transport } = sender;
  const { worker, rank, tokens, messages, cacheSalt = null, adapter = null } = prompt;
  const { id, model, role } = worker.spec;
  const partition = { model, routingGroup: fleet.groupOf(worker.spec) };
  const sentAt = clock.now();
  probes += 1;
  const common = {
    max_tokens: 1,
    temperature: 0,
    ...(cacheSalt === null ? null : { cache_salt: cacheSalt }),
  };
  const body =
    messages === undefined ? { model, ...common, prompt: [...tokens] } : { model, ...common, messages };
  const request = {
    requestId: `doctor-${process.pid}-${probes}`,
    ...{ partition, role, worker, rank, body },
    servedAs: adapter ?? config.models.get(model)?.servedAs ?? model,
    api: messages === undefined ? ('completions' as const) : ('chat' as const),
    stream: false,
    tokens,
    maxOutputTokens: 1,
    session: null,
    hint: null,
    // Only of text can the engine's ids be others.
    asksPromptTokenIds: messages !== undefined,
  };
  const result = await new Promise<ProbeResult>((resolve) => {
    const exchange = transport.dispatch(request, {
      head(code) {
        status = code;
      },
      data(bytes) {
        if (text.length < 2048) text += Buffer.from(bytes).toString('utf8');
      },
      tokens: () => undefined,
      finished(report) {
        cancel();
        resolve(
          status < 400 ? { kind: 'answered', report } : { kind: 'failed', problem: refusal(status, text) },
        );
      },
      failed(error) {
        cancel();
        resolve({ kind: 'failed', problem: error.message });
      },
    });
    let status = 0;
    let text = '';
    const cancel = clock.schedule(ANSWER_MS, () => {
      exchange.abort();
      resolve({ kind: 'failed', problem: `no answer within ${ANSWER_MS / 1000} s` });
    });
  });
  if (result.kind === 'failed') return result;
  const { cachedTokens, promptTokens, promptTokenIds: engineIds = null } = result.report;
  const slot = worker.slots[rank - worker.spec.ranks.first] ?? -1;
  const blockSize = blockSizes.ofSlot(slot) ?? 16;
  if (tokens.length - (cachedTokens ?? 0) >= 2 * blockSize && prompt.isUnique)
    computed(id, Math.floor(tokens.length / blockSize));
  monitor.answered({
    ...{ worker: id, slot, tokens, blockSize, cacheSalt, promptTokens, cachedTokens, sentAt, engineIds },
    loraName: adapter,
    isExact: true,
    isUnique: prompt.isUnique,
    predictedTokens: null,
  });
  return result;
}

/** An engine's refusal in few words: what it says of the request may repeat parts of it, and none is printed. */
function refusal(status: number, text: string): string {
  const message = /"message"\s*:\s*"((?:[^"\\]|\\.){1,200})"/.exec(text)?.[1] ?? '';
  return `status ${status}${message === '' ? '' : `, "${message}"`}`;
}

/** Random ids that every vocabulary has, the same for one seed. */
export function probeIds(count: number, seed: number): Uint32Array {
  let state = seed >>> 0;
  return Uint32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 10 + ((state >>> 8) % 200);
  });
}

/**
 * What the engine makes of a chat, where it has an endpoint that says so (vLLM's `POST /tokenize`); null = it has none.
 */
export async function engineIds(
  { clock, config }: Pick<ProbeSender, 'clock' | 'config'>,
  { spec }: Worker,
  messages: readonly object[],
): Promise<Uint32Array | null> {
  const limit = new AbortController();
  const cancel = clock.schedule(ANSWER_MS, () => limit.abort());
  try {
    const model = config.models.get(spec.model)?.servedAs ?? spec.model;
    const answer = await fetch(`${spec.url}/tokenize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages, add_generation_prompt: true }),
      signal: limit.signal,
    });
    const body: unknown = answer.ok ? await answer.json() : null;
    if (typeof body !== 'object' || body === null || !('tokens' in body) || !Array.isArray(body.tokens))
      return null;
    const ids: unknown[] = body.tokens;
    // llama.cpp’s endpoint of this name knows no chats, and makes nothing of one.
    const isTold = ids.length > 0 && ids.every((id): id is number => typeof id === 'number');
    return isTold ? Uint32Array.from(ids) : null;
  } catch {
    return null;
  } finally {
    cancel();
  }
}

/** A chat of random words. */
export function probeMessages(words: number, seed: number): readonly object[] {
  const known = ['on', 'town', 'and', 'goods', 'click', 'looks', 'pulls', 'what'];
  let state = seed >>> 0;
  let text = `check ${seed.toString(36)}`;
  for (let at = 0; at < words; at += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    text += ` ${known[state >>> 29]}`;
  }
  return [{ role: 'user', content: text }];
}

/** The router's own ids of a chat; null = it has none that are exact. */
export async function localIds(
  source: TokenSource | undefined,
  messages: readonly object[],
  log: Logger,
): Promise<Uint32Array | null> {
  try {
    const prompt = await source?.encodeChat({
      messages,
      tools: undefined,
      addGenerationPrompt: true,
      addSpecialTokens: false,
      variables: {},
    });
    return prompt === undefined || prompt.source === 'estimate' ? null : prompt.tokens;
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError)) throw thrown;
    log.warn(`the chat is not tokenized here: ${errorText(thrown)}`);
    return null;
  }
}
