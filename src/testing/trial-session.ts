// Sessions as tests write them: agent headers only where they matter.
import type { SessionContext } from '../plugin/index.ts';

/** A session of a trial; without `agentHeaders` it has none. */
export type TrialSession = Omit<SessionContext, 'agentHeaders'> &
  Partial<Pick<SessionContext, 'agentHeaders'>>;

/** The session as a policy sees it; null = none. */
export function sessionOfTrial(session: TrialSession | null | undefined): SessionContext | null {
  return session == null ? null : { ...session, agentHeaders: session.agentHeaders ?? {} };
}
