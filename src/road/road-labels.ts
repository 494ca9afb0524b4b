// Metric labels of the road's own counts: the same objects every time, so that counting allocates nothing.
import type { MetricLabels } from '../observe/index.ts';

/** Labels of one model. */
export interface RoadLabels {
  readonly model: MetricLabels;
  /** The model and where its tokens were expected. */
  readonly tiers: Readonly<Record<'device' | 'host' | 'hint', MetricLabels>>;
}

/** Remembers the labels of each model that was asked for. */
export function roadLabels(): (model: string) => RoadLabels {
  const known = new Map<string, RoadLabels>();
  return (model) => {
    const labels = known.get(model);
    if (labels !== undefined) return labels;
    const tiers = {
      device: { model, tier: 'device' },
      host: { model, tier: 'host' },
      hint: { model, tier: 'hint' },
    };
    const made = { model: { model }, tiers };
    known.set(model, made);
    return made;
  };
}
