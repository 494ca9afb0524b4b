// Requests for comparing the two shells: sessions whose prompts grow turn by turn, beginning with one of a few shared prefixes,
// at a load that keeps about one request running per two workers.
import { seededRng } from '../../src/plugin/index.ts';

/** One request of the workload. */
export interface ShellRequest {
  /** ms from the start. */
  readonly at: number;
  readonly sessionId: string;
  /** Whether it says that the session is over; some go on all the same. */
  readonly final: boolean;
  readonly tokens: Uint32Array;
  readonly outputTokens: number;
}

const PREFIXES = 6;
const LONGEST_PROMPT = 3000;

/** `count` requests, the same for the same seed. */
export function shellWorkload(count: number, seed: number): ShellRequest[] {
  const rng = seededRng(seed);
  const fresh = (length: number): number[] => Array.from({ length }, () => rng.integer(100_000));
  const prefixes = Array.from({ length: PREFIXES }, () => fresh(200 + rng.integer(600)));
  const sessions: { readonly id: string; prompt: number[] }[] = [];
  let at = 0;
  return Array.from({ length: count }, (_, index) => {
    at += rng.next() * 160;
    let session = rng.next() < 0.4 ? undefined : sessions[rng.integer(Math.max(1, sessions.length))];
    if (session === undefined || session.prompt.length > LONGEST_PROMPT) {
      session = { id: `session-${sessions.length}`, prompt: [...prefixes[rng.integer(PREFIXES)]!] };
      sessions.push(session);
    }
    session.prompt.push(...fresh(1 + rng.integer(300)));
    return {
      at,
      sessionId: session.id,
      final: index % 9 === 8,
      tokens: Uint32Array.from(session.prompt),
      outputTokens: 1 + rng.integer(20),
    };
  });
}
