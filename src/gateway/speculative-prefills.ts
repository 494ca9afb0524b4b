// Computes the prompt of a conversation's next turn ahead, where an agent asks for it: once a turn is answered, its messages and the
// answer go down the road as a request for one token, so that the worker has their blocks when the next turn comes. It is booked, hinted,
// recorded and freed like any other request, and gives way to all of them.
import type { EngineReport } from '../engines/index.ts';
import { sessionTenant } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import type { ResponseSink, Road, RoadRequest, RoadTicket } from '../road/index.ts';
import type { TokenSource } from '../tokens/index.ts';
import { AssistantAnswer } from './assistant-answer.ts';
import type { ChatPart } from './chat-request.ts';

/** Answers that are kept until they end, in bytes; beyond that no more are followed. */
const MAX_KEPT_BYTES = 64 * 2 ** 20;
/** The least important there is. */
const LAST_PRIORITY = -(2 ** 31);

type Outcome = 'sent' | 'completed' | 'failed' | 'cancelled' | 'refused';

/** What they work with. */
export interface SpeculativePorts {
  readonly road: Pick<Road, 'arrive'>;
  /** By the model's configured name. */
  readonly tokens: (model: string) => Pick<TokenSource, 'encodeChat'> | undefined;
  readonly metrics: Metrics;
  readonly newRequestId: () => string;
  /** Most at once; read at each, 0 = none. */
  readonly limit: () => number;
}

/** What the turns of a gateway share. */
interface Shared extends SpeculativePorts {
  /** The latest turn of a session that is followed, or computed ahead for. */
  readonly turns: Map<string, FollowedTurn>;
  active: number;
  keptBytes: number;
  stopped: boolean;
}

/** The door's way onto the road, which follows turns that ask for it. */
export class SpeculativePrefills {
  readonly #shared: Shared;

  constructor(ports: SpeculativePorts) {
    this.#shared = { ...ports, turns: new Map(), active: 0, keptBytes: 0, stopped: false };
    ports.metrics.gauge('pointsman_speculative_prefills_active', () => this.#shared.active);
  }

  /** Those that are tokenized or computed now. */
  get active(): number {
    return this.#shared.active;
  }

  /** Turns that are followed, or computed ahead for. */
  get followed(): number {
    return this.#shared.turns.size;
  }

  /**
   * A client's request arrives. What is computed ahead for its session ends before.
   * @param chat what its prompt was rendered from; null = it is no chat.
   * @param speculates whether its next turn is to be computed ahead.
   */
  arrive(request: RoadRequest, chat: ChatPart | null, speculates: boolean, sink: ResponseSink): RoadTicket {
    const { road, turns } = this.#shared;
    const asked = speculates && this.#mayFollow(request);
    if (!asked && turns.size === 0) return road.arrive(request, sink);
    const key = sessionOf(request);
    if (key !== null) turns.get(key)?.superseded();
    if (!asked || key === null || chat === null) return road.arrive(request, sink);
    const turn = new FollowedTurn(this.#shared, key, request, chat, sink);
    turns.set(key, turn);
    try {
      return turn.ticketOf(road.arrive(request, turn));
    } catch (thrown) {
      turn.superseded();
      throw thrown;
    }
  }

  /** Ends all; none begins from here on. */
  stop(): void {
    this.#shared.stopped = true;
    for (const turn of [...this.#shared.turns.values()]) turn.superseded();
  }

  /** A session that ends, or whose prompt is about to be another one, has no next turn that repeats this one. */
  #mayFollow({ session, tokensSource }: RoadRequest): boolean {
    const { limit, stopped } = this.#shared;
    if (stopped || limit() === 0 || session === null || tokensSource !== 'local') return false;
    return session.sessionFinal !== true && session.compaction !== true;
  }
}

/** A turn on its way to the client, and what is computed ahead after it. */
class FollowedTurn implements ResponseSink {
  readonly #shared: Shared;
  readonly #key: string;
  readonly #request: RoadRequest;
  readonly #chat: ChatPart;
  readonly #door: ResponseSink;
  /** Null = there is no answer to be kept. */
  #answer: AssistantAnswer | null = null;
  #keptBytes = 0;
  /** It counts as one of those under way. */
  #started = false;
  #over = false;
  #booked = false;
  #refusedByEngine = false;
  #ahead: RoadTicket | null = null;

  constructor(shared: Shared, key: string, request: RoadRequest, chat: ChatPart, door: ResponseSink) {
    this.#shared = shared;
    this.#key = key;
    this.#request = request;
    this.#chat = chat;
    this.#door = door;
  }

  // --- the turn itself ---

  /** What the door holds: a client that leaves before the end has no next turn to wait for. */
  ticketOf(ticket: RoadTicket): RoadTicket {
    return {
      requestId: ticket.requestId,
      abort: () => {
        if (!this.#started) this.superseded();
        ticket.abort();
      },
      pause: () => ticket.pause(),
      resume: () => ticket.resume(),
    };
  }

  booked(...booked: Parameters<ResponseSink['booked']>): void {
    this.#door.booked(...booked);
  }

  dispatched(): void {
    this.#door.dispatched?.();
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    const isStream = (headers['content-type'] ?? '').startsWith('text/event-stream');
    if (status < 300 && !this.#over) this.#answer = new AssistantAnswer(isStream);
    this.#door.head(status, headers);
  }

  data(bytes: Uint8Array): void {
    this.#door.data(bytes);
    if (this.#answer === null) return;
    this.#answer.push(bytes);
    this.#keep(this.#answer.bytes);
    if (this.#shared.keptBytes > MAX_KEPT_BYTES) this.superseded();
  }

  tokens(count: number): void {
    this.#door.tokens(count);
  }

  finished(report: EngineReport): void {
    const message = this.#over ? null : (this.#answer?.message() ?? null);
    this.#answer = null;
    this.#keep(0);
    if (message === null) this.superseded();
    this.#door.finished(report);
    // The next turn may have come from inside of this call.
    if (message !== null && !this.#over) void this.#computeAhead(message);
  }

  failed(error: PointsmanError, afterHead: boolean): void {
    this.superseded();
    this.#door.failed(error, afterHead);
  }

  waits(): boolean {
    return this.#door.waits?.() ?? false;
  }

  // --- what comes after it ---

  /** It is of no use any more: whatever is under way for the next turn ends. */
  superseded(): void {
    if (this.#over) return;
    const ahead = this.#ahead;
    this.#end(this.#started ? 'cancelled' : null);
    ahead?.abort();
  }

  /** Never rejects. */
  async #computeAhead(message: ChatPart['messages'][number]): Promise<void> {
    const { limit, stopped, tokens } = this.#shared;
    const source = tokens(this.#request.partition.model);
    if (stopped || source === undefined || this.#shared.active >= limit()) {
      this.#end('refused');
      return;
    }
    this.#started = true;
    this.#shared.active += 1;
    const { messages, ...rest } = this.#chat;
    try {
      // Up to the end of the answer: what comes behind it, nobody knows yet.
      const chat = { ...rest, messages: [...messages, message], addGenerationPrompt: false };
      const prompt = await source.encodeChat(chat);
      if (this.#over) return;
      if (prompt.source !== 'local') this.#end('refused');
      else this.#send(prompt.tokens);
    } catch {
      // Too long, or nobody is free to tokenize it: the turn was answered, and this is no part of it.
      this.#end('refused');
    }
  }

  #send(tokens: Uint32Array): void {
    const request = aheadOf(this.#request, this.#shared.newRequestId(), tokens);
    const ticket = this.#shared.road.arrive(request, {
      booked: () => {
        if (this.#booked) return;
        this.#booked = true;
        if (!this.#over) this.#count('sent');
      },
      head: (status) => {
        this.#refusedByEngine = status >= 300;
      },
      data: () => undefined,
      tokens: () => undefined,
      finished: () => this.#end(this.#refusedByEngine ? 'failed' : 'completed'),
      failed: () => this.#end(this.#booked ? 'failed' : 'refused'),
      // The conversation does, as long as no other turn of it came.
      waits: () => false,
    });
    // Its end, or that of its turn, may have come during the call.
    if (this.#over) ticket.abort();
    else this.#ahead = ticket;
  }

  #end(outcome: Outcome | null): void {
    if (this.#over) return;
    this.#over = true;
    this.#answer = null;
    this.#ahead = null;
    this.#keep(0);
    if (this.#started) this.#shared.active -= 1;
    if (this.#shared.turns.get(this.#key) === this) this.#shared.turns.delete(this.#key);
    if (outcome !== null) this.#count(outcome);
  }

  #keep(bytes: number): void {
    this.#shared.keptBytes += bytes - this.#keptBytes;
    this.#keptBytes = bytes;
  }

  #count(outcome: Outcome): void {
    const { model } = this.#request.partition;
    this.#shared.metrics.count('pointsman_speculative_prefills_total', { model, outcome });
  }
}

/** The request for one token behind a turn's messages and answer, in the partition, session and place of the turn. */
function aheadOf(turn: RoadRequest, requestId: string, tokens: Uint32Array): RoadRequest {
  const { cacheSalt, constraints, enginePriority = null } = turn;
  return {
    ...turn,
    requestId,
    door: 'speculative',
    api: 'completions',
    body: { max_tokens: 1, ...(cacheSalt === null ? {} : { cache_salt: cacheSalt }) },
    stream: false,
    tokens,
    tokensSource: 'local',
    maxOutputTokens: 1,
    expectedOutputTokens: 1,
    constraints: { ...constraints, priority: 0, strictPriority: 0 },
    // Engines that were told a priority take priorities.
    enginePriority: enginePriority === null || enginePriority === 0 ? null : LAST_PRIORITY,
    queueing: 'refuse',
    incomingHint: null,
    agentHints: null,
    stripped: [],
    tokenizeMicros: 0,
  };
}

function sessionOf(request: RoadRequest): string | null {
  const { partition, session } = request;
  if (session === null) return null;
  return JSON.stringify([partition.model, partition.routingGroup, sessionTenant(request), session.sessionId]);
}
