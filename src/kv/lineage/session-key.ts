// Names a session so that equal ids of different models, routing groups or tenants never meet: ids are given by clients.
import { createHash } from 'node:crypto';
import { type Partition, PointsmanError } from '../../plugin/index.ts';
import type { SessionKey } from './types.ts';

/** Longest part of a key in UTF-16 units, beyond which its digest stands for it; a session id is no longer, at the gateway either. */
const MAX_PART = 256;

/**
 * The key of a session.
 * @param tenant null = requests of this session name none, which is not the same as an empty name.
 * @throws PM_KV_ARGUMENT when the id is empty, or longer than 256 characters.
 */
export function sessionKey(partition: Partition, tenant: string | null, sessionId: string): SessionKey {
  return sessionKeyWithin(sessionKeyPrefix(partition, tenant), sessionId);
}

/** Who asks, as far as sessions are kept apart. */
export interface SessionOwner {
  /** Null or absent = nobody said. */
  readonly tenant?: string | null;
  /** Null or empty = none. */
  readonly cacheSalt: string | null;
}

/**
 * The tenant of a key: the one that is named, else the cache salt, as those who share none share no blocks either; null = neither. No
 * salt reads like a tenant, and what is too long for a key counts by its digest.
 */
export function sessionTenant({ cacheSalt, tenant = null }: SessionOwner): string | null {
  if (tenant !== null) return tagged('t', tenant);
  return cacheSalt === null || cacheSalt === '' ? null : tagged('s', cacheSalt);
}

/** A short name of the tenant of a key that does not tell who or what it is; null = it has none. */
export function sessionNamespace(owner: SessionOwner): string | null {
  const tenant = sessionTenant(owner);
  return tenant === null ? null : digest(tenant).slice(0, 32);
}

function tagged(kind: 't' | 's', text: string): string {
  if (text.length <= MAX_PART - 2) return `${kind}=${text}`;
  return `${kind}#${digest(text)}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** What the keys of a partition and tenant begin with. */
export function sessionKeyPrefix(partition: Partition, tenant: string | null): string {
  return part(partition.model) + part(partition.routingGroup) + (tenant === null ? '-' : part(tenant));
}

/** The key of a session of a partition and tenant. @throws PM_KV_ARGUMENT as `sessionKey` does. */
export function sessionKeyWithin(prefix: string, sessionId: string): SessionKey {
  if (sessionId === '') refuse('a session id is empty; a request without one has no session', 0);
  if (sessionId.length > MAX_PART) {
    const { length } = sessionId;
    refuse(`a session id has at most ${MAX_PART} characters here, but one has ${length}`, length);
  }
  return `${prefix}${sessionId}` as SessionKey;
}

/** A text behind its length: no two lists of them look the same side by side. What is too long counts by its digest. */
function part(text: string): string {
  return text.length <= MAX_PART ? `${text.length}:${text}` : `#${digest(text)}`;
}

function refuse(message: string, length: number): never {
  throw new PointsmanError('PM_KV_ARGUMENT', message, { details: { length } });
}
