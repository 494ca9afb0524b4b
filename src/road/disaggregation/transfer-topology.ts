// Where the KV of a prefill worker may go: its topology rule becomes taints that the decode worker must or should carry.
import { type Fleet, topologyTaint, type Worker } from '../../fleet/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type { RoadRequest, RoutingConstraints } from '../types.ts';

/**
 * The constraints of the leg that decodes, once the worker that computes is known.
 * @throws PointsmanError PM_DISAGG_TOPOLOGY when a required rule cannot be kept: the worker does not say where it is, or no ready decode
 *   worker is there.
 */
export function constrainedTo(
  prefill: Worker,
  { constraints, partition }: Pick<RoadRequest, 'constraints' | 'partition'>,
  fleet: Fleet,
): RoutingConstraints {
  const rule = prefill.spec.kvTransfer ?? null;
  if (rule === null) return constraints;
  const { id, topology } = prefill.spec;
  const value = Object.hasOwn(topology, rule.domain) ? topology[rule.domain] : undefined;
  const required = rule.enforcement === 'required';
  if (value === undefined) {
    if (!required) return constraints;
    throw impossible(
      id,
      `its KV must stay within one ${rule.domain}, and its topology does not say which; give it topology.${rule.domain}`,
    );
  }
  const taint = topologyTaint(rule.domain, value);
  if (!required) {
    const weight = rule.weight + (constraints.preferredTaints.get(taint) ?? 0);
    return { ...constraints, preferredTaints: new Map([...constraints.preferredTaints, [taint, weight]]) };
  }
  const { slots } = fleet.candidates(partition, 'decode');
  const near = slots.some((slot) => {
    const worker = fleet.workerOfSlot(slot);
    return worker?.state === 'ready' && worker.taints.includes(taint);
  });
  if (!near) {
    throw impossible(
      id,
      `its KV must stay within ${rule.domain} ${value}, and no decode worker there is ready`,
    );
  }
  const requiredTaints = constraints.requiredTaints.includes(taint)
    ? constraints.requiredTaints
    : [...constraints.requiredTaints, taint];
  return { ...constraints, requiredTaints };
}

function impossible(worker: bigint, why: string): PointsmanError {
  return new PointsmanError('PM_DISAGG_TOPOLOGY', `prefill worker ${worker} cannot be used: ${why}`, {
    details: { worker_id: String(worker) },
  });
}
