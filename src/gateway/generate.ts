// The way of a generate request through ingress, identify and tokenize onto the road.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestApi } from '../engines/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import { countRefusal, type RoadRequest, sessionWithin } from '../road/index.ts';
import type { TokenizedPrompt, TokenSource } from '../tokens/index.ts';
import { type AgentHints, agentHintsRecord, readAgentHints } from './agent-hints.ts';
import { type CallerRules, type NamedModel, NO_ADAPTERS, namedModel } from './callers.ts';
import type { GatewayDeps, GatewayParts } from './gateway-deps.ts';
import { GenerateCall } from './generate-call.ts';
import { type GenerateRequest, readGenerateRequest } from './generate-request.ts';
import { type CallerTrust, type CleanRequest, cleanRequest } from './ingress.ts';
import { parseBody } from './parse-body.ts';
import { readBody } from './read-body.ts';
import type { JsonObject } from './request-fields.ts';
import { ENGINE_SESSION_FIELDS } from './router-only-fields.ts';
import { asksToExplain, readConstraints, readPolicyClass, readTenant } from './routing-constraints.ts';
import type { RunningCalls } from './running-calls.ts';
import { readBodySessionId, readSession, triggerOf } from './session-headers.ts';

/** Metric label of requests that named no model of ours: whatever clients write must not make new series. */
const NO_MODEL = 'unknown';
/** Names of removed fields that a record tells. */
const MOST_STRIPPED = 32;

/** Handles one POST; every error ends as an answer, never as a rejection. */
export async function generate(
  api: RequestApi,
  req: IncomingMessage,
  res: ServerResponse,
  deps: GatewayParts,
  rules: CallerRules,
  calls: RunningCalls,
): Promise<void> {
  const from = deps.clock.now();
  let model = NO_MODEL;
  // What the client is told of such a failure says nothing: the log has to.
  const logInside = (thrown: unknown): void =>
    deps.log.error('request failed inside', { request_id: call.requestId, stack: stackOf(thrown) });
  const call = new GenerateCall({
    requestId: deps.newRequestId(),
    response: res,
    clock: deps.clock,
    overloadStatus: rules.config.limits.overloadStatus,
    over: (status, error) => {
      calls.delete(call);
      deps.metrics.count('pointsman_requests_total', { door: 'gateway', model, status: String(status) });
      const facts = { request_id: call.requestId, model, status, ms: deps.clock.now() - from };
      if (error?.code === 'PM_INTERNAL' && error.cause !== undefined) logInside(error.cause);
      if (error === null) deps.log.debug('request answered', facts);
      else deps.log[status >= 500 ? 'warn' : 'debug'](logged(error), { ...facts, code: error.code });
    },
  });
  try {
    admit(rules, calls, deps);
    calls.add(call);
    const client = rules.authenticate(req.headers.authorization);
    const bytes = await readBody(req, rules.config.limits.bodyBytes);
    if (bytes === null || call.isOver) return;
    const stripped: string[] = [];
    const strip = (field: string): void => {
      deps.metrics.count('pointsman_stripped_fields_total', { field });
      if (stripped.length < MOST_STRIPPED && !stripped.includes(field)) stripped.push(field);
    };
    const clean = cleanRequest(req.headers, parseBody(bytes), trustOf(req, rules), strip);
    const request = readGenerateRequest(api, clean.body);
    const served = namedModel(rules, deps.adapters?.all() ?? NO_ADAPTERS, client, request.model);
    model = served.model.name;
    const facts = { requestId: call.requestId, tenant: readTenant(clean.trusted) ?? client?.tenant ?? null };
    const hints = readAgentHints(clean.trusted);
    const engineBody = facts.tenant === null ? clean.body : withoutEngineSessions(clean.body, strip);
    const parts = { ...clean, engineBody, hints, stripped };
    const roadRequest = await toRoadRequest(facts, served, request, parts, req, deps);
    // The client may have left while its prompt was tokenized: nothing is booked for nobody.
    if (call.isOver) return;
    call.explain = asksToExplain(clean.trusted.headers);
    const chat = request.prompt.api === 'chat' ? request.prompt.chat : null;
    call.attach(deps.speculative.arrive(roadRequest, chat, hints.speculativePrefill, call));
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError)) logInside(thrown);
    call.fail(thrown);
  }
}

/** An engine's own words may quote the prompt: they go to the client, not into the log. */
function logged(error: PointsmanError): string {
  return error.code === 'PM_ENGINE_REFUSED' ? 'the engine refused the request' : error.message;
}

/** Never throws: plugins throw what they like. */
function stackOf(thrown: unknown): string {
  try {
    return thrown instanceof Error && typeof thrown.stack === 'string' ? thrown.stack : errorText(thrown);
  } catch {
    return errorText(thrown);
  }
}

function admit(rules: CallerRules, calls: RunningCalls, deps: GatewayDeps): void {
  if (calls.draining)
    throw new PointsmanError('PM_SHUTTING_DOWN', 'this router is stopping; send the request elsewhere');
  const refusal = calls.refusalAt(rules.config.limits.concurrentRequests);
  if (refusal === null) return;
  countRefusal(deps.metrics, NO_MODEL, refusal);
  throw refusal;
}

function trustOf(req: IncomingMessage, rules: CallerRules): CallerTrust {
  const address = req.socket.remoteAddress;
  const routing = rules.trustsRouting(address);
  const { hints } = rules.config.router.agents;
  return {
    routing,
    hints: rules.trustsHints(address),
    agents: hints === 'all' || (hints === 'trusted' && routing),
  };
}

async function toRoadRequest(
  { requestId, tenant }: { readonly requestId: string; readonly tenant: string | null },
  { model, adapter }: NamedModel,
  request: GenerateRequest,
  {
    hints,
    stripped,
    engineBody,
    ...clean
  }: CleanRequest & {
    readonly hints: AgentHints;
    readonly stripped: readonly string[];
    readonly engineBody: JsonObject;
  },
  req: IncomingMessage,
  deps: GatewayDeps,
): Promise<RoadRequest> {
  const { agents } = deps.config().router;
  const constraints = readConstraints(clean.trusted, hints);
  const lastRole = request.prompt.api === 'chat' ? request.prompt.chat.lastRole : null;
  const bodyId = readBodySessionId(clean.body, agents.sessionBodyFields);
  const session = readSession(req.headersDistinct, lastRole, bodyId);
  const source = deps.tokens(model.name);
  if (source === undefined)
    throw new PointsmanError('PM_INTERNAL', `model "${model.name}" has no token source`);
  const from = deps.clock.now();
  const prompt = await tokenize(source, request);
  return {
    requestId,
    door: 'gateway',
    partition: { model: model.name, routingGroup: model.routingGroup },
    role: 'aggregated',
    // Engines know an adapter by its own name.
    servedAs: adapter ?? model.servedAs,
    api: request.prompt.api,
    body: engineBody,
    stream: request.stream,
    tokens: prompt.tokens,
    tokensSource: prompt.source,
    ...(prompt.estimated === undefined ? {} : { estimated: prompt.estimated }),
    maxOutputTokens: request.maxOutputTokens,
    expectedOutputTokens: hints.expectedOutputTokens,
    enginePriority: agents.forwardPriority ? hints.priority : null,
    loraName: adapter,
    cacheSalt: request.cacheSalt,
    session: session && sessionWithin(session, { tenant, cacheSalt: request.cacheSalt }),
    ...(lastRole === null ? {} : { inputTrigger: triggerOf(lastRole) }),
    tenant,
    constraints,
    policyClass: readPolicyClass(clean.trusted),
    incomingHint: clean.incomingHint,
    agentHints: agentHintsRecord(hints),
    stripped,
    tokenizeMicros: Math.round((deps.clock.now() - from) * 1000),
  };
}

function tokenize(source: TokenSource, { prompt }: GenerateRequest): Promise<TokenizedPrompt> {
  return prompt.api === 'chat'
    ? source.encodeChat(prompt.chat)
    : source.encodePrompt(prompt.prompt, prompt.addSpecialTokens, prompt.truncation);
}

/** The body of a tenant's request without the names of sessions that an engine keeps, which know no tenants. */
function withoutEngineSessions(body: JsonObject, removed: (field: string) => void): JsonObject {
  const named = ENGINE_SESSION_FIELDS.filter((field) => (body[field] ?? null) !== null);
  if (named.length === 0) return body;
  for (const field of named) removed(field);
  const rest: Record<string, unknown> = { __proto__: null, ...body };
  for (const field of named) delete rest[field];
  return rest;
}
