// Refusals of vLLM that say less than the operator of a router needs: they are about flags of the server, not about the request.
import type { EngineRequest } from '../types.ts';

/** vLLM's words for a priority other than 0 on a server that schedules first come, first served. */
const NO_PRIORITIES = /priority scheduling is not enabled/i;

/** What to say behind a refusal, in a sentence; null = it speaks for itself. */
export function explainRefusal(
  message: string,
  { priority = null }: Pick<EngineRequest, 'priority'>,
): string | null {
  if ((priority ?? 0) === 0 || !NO_PRIORITIES.test(message)) return null;
  return 'the priority is one that the router passed on: start vLLM with --scheduling-policy priority, or set router.agents.forward_priority to false';
}
