// Who bears a configured token.
import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether a request has `authorization: Bearer TOKEN`. */
export function bearsToken(
  { headers }: { readonly headers: { readonly authorization?: string | undefined } },
  token: string,
): boolean {
  const given = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1] ?? '';
  // Digests, so that neither the content nor the length of the token shows in the time it takes.
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(token));
}
