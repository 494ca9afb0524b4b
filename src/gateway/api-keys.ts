// API keys: configuration holds SHA-256 digests, a request shows a key.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { RouterConfig } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/** What a key allows. */
export interface ApiClient {
  readonly name: string;
  /** Models by configured name; null = all. */
  readonly models: ReadonlySet<string> | null;
  /** Whose requests they are; null = nobody says. */
  readonly tenant: string | null;
}

/** Finds the client behind an `Authorization` header; null where the router is open. @throws PM_REQUEST_UNAUTHORIZED */
export type ApiKeyCheck = (authorization: string | undefined) => ApiClient | null;

/** The check for a configuration's `auth` section. */
export function apiKeyCheck(auth: RouterConfig['auth']): ApiKeyCheck {
  if (auth === null) return () => null;
  const clients = auth.apiKeys.map((key) => ({
    digest: Buffer.from(key.sha256, 'hex'),
    client: {
      name: key.name,
      models: key.models === null ? null : new Set(key.models),
      tenant: key.tenant,
    },
  }));
  return (authorization) => {
    const key = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    if (key === undefined) {
      throw unauthorized('no API key; send it as "Authorization: Bearer KEY"');
    }
    const digest = createHash('sha256').update(key).digest();
    let found: ApiClient | null = null;
    // Every key is compared, each in constant time, so that the time tells nothing about which one was near.
    for (const { digest: expected, client } of clients) {
      if (expected.length === digest.length && timingSafeEqual(expected, digest)) found = client;
    }
    if (found === null) throw unauthorized('the API key is not known');
    return found;
  };
}

function unauthorized(sentence: string): PointsmanError {
  return new PointsmanError('PM_REQUEST_UNAUTHORIZED', sentence);
}
