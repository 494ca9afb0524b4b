// Gives every tenant its own share of prompt tokens per second. Who asks for more waits for its share; who would wait too long is told
// when to come back. Other tenants notice nothing of it.
import {
  type ClassifyAnswer,
  defineRequestClassifier,
  RateLimited,
  type RequestClassifierDefinition,
  type SessionContext,
} from 'pointsman/plugin';
import { z } from 'zod';
import { Shares } from './shares.ts';

/** `parameters` in router.yaml. */
const parameters = z.strictObject({
  /** Prompt tokens that a tenant may send per second, in the long run. */
  tokens_per_second: z.number().positive().default(10_000),
  /** Prompt tokens that it may send at once after a pause. A longer prompt counts as this long. */
  burst_tokens: z.number().positive().default(100_000),
  /** Who would wait longer is refused. */
  max_wait_seconds: z.number().min(0).default(10),
  /** Agent header that names the tenant; without it, a session and those it started are one tenant. */
  tenant_header: z.string().toLowerCase().optional(),
  /** Tenants told apart at once; those beyond share one share. */
  most_tenants: z.int().min(1).default(10_000),
});

/** Requests of nobody in particular share one share. */
const ANONYMOUS = 'anonymous';

function tenantOf(session: SessionContext | null, header: string | undefined): string {
  if (session === null) return ANONYMOUS;
  if (header === undefined) return `session ${session.parentSessionId ?? session.sessionId}`;
  const [tenant] = session.agentHeaders[header] ?? [];
  return tenant === undefined ? ANONYMOUS : `tenant ${tenant}`;
}

/** `tenant-fair`. */
export const tenantFair: RequestClassifierDefinition = defineRequestClassifier({
  type: 'tenant-fair',
  parameters,
  create({ clock, parameters: setting }) {
    const perToken = 1000 / setting.tokens_per_second;
    const maxWaitMs = setting.max_wait_seconds * 1000;
    const shares = new Shares(setting.burst_tokens * perToken, setting.most_tenants);
    /** By request id: gives up the wait. */
    const waiting = new Map<string, () => void>();
    return {
      classify({ requestId, session, inputTokens }): ClassifyAnswer {
        const now = clock.now();
        const tenant = tenantOf(session, setting.tenant_header);
        const costMs = Math.min(inputTokens, setting.burst_tokens) * perToken;
        const waitMs = shares.waitOf(tenant, costMs, now);
        if (waitMs > maxWaitMs) throw new RateLimited((waitMs - maxWaitMs) / 1000);
        const giveBack = shares.take(tenant, costMs, now);
        if (waitMs === 0) return undefined;
        return new Promise((resolve) => {
          const cancel = clock.schedule(waitMs, () => {
            waiting.delete(requestId);
            resolve(undefined);
          });
          waiting.set(requestId, () => {
            waiting.delete(requestId);
            cancel();
            giveBack();
          });
        });
      },
      onEvent({ kind, requestId }) {
        // A client that left while it waited has used nothing.
        if (kind === 'aborted') waiting.get(requestId)?.();
      },
      dispose() {
        for (const giveUp of [...waiting.values()]) giveUp();
      },
    };
  },
});
