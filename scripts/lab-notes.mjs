// What the page of the policy lab says in words: how things were measured, and what that cannot tell. Figures in it are computed.
import { LAB_TRACES } from './lab-grid.mjs';

const REQUESTS = ['conversation', 'synthetic'];

/** Points about the set-up. */
export function setUp(builds) {
  return [
    '- Rows are the policy files of `bench/lab/`: `default` is `dynamo-default-cost-fn`, which the router mode `kv` and replays of `kv` use, `expected-time` is `pointsman-expected-time`, `tuned-cost` is `pointsman-tuned-cost` and `two-tier` is `dynamo-two-tier-cost-fn`. As a policy `agentic` is the default cost with other weights; as a trace, sessions of agents.',
    `- **Dynamo itself was not run.** \`default\` is this repository's implementation of its cost formula with Dynamo's default weights; \`agentic\` the same with the weights of Dynamo's agentic preset; \`two-tier\` and \`kvcr\` are reconstructions.`,
    '- **Tuning and testing are kept apart.** Parameters of the built-ins are chosen on the first half of the conversation trace alone (`tuning` in `scripts/lab-grid.mjs`), which stands in its own section below and nowhere else. The conversation figures are of its second half; no weight was chosen on the synthetic trace, and none but `crowding_weight` on the Claude Code traces. Some things were seen on cells that are reported here, so they are less untouched than that: that `peer_copies` must count nothing where prompts wait showed first on a synthetic cell near saturation, and the whole fetch study ran on three variants of it; and that the tail needed mending showed on some cells of the second half, under the formula as it was before. That a `prefill_weight` of 8 rather than 4 makes sessions thrash less was seen on their cells, and that a limit on what being late costs spoils p99 on two synthetic cells beyond saturation, for which it was left out again; on the half for tuning the two differ by less than seeds do. `crowding_weight`, and what it multiplies, was found on agentic sessions with profile 8b, seeds 1 and 2, and of seeds 3 and 4 on cells of 8 workers at half of their working set; of two forms that did equally well there one was taken for p99 of one conversation cell (16 workers, memory ratio 4, load 0.4). The sessions held out are of seeds that were first replayed when all weights were chosen. [What other seeds say](findings-tuning.md#a-full-pool). `interference_weight` of `expected-time` comes from a prototype whose search saw both request traces whole, so it counts as chosen only as far as the section on the choice of parameters bears it out.',
    "- Engine: the simulated one, timing profile `8b` (`70b` or `smg` where it says so): passes of at most 8,192 tokens, prefill and decode of a pass one after the other, attention over the cached prefix charged, blocks of 512 tokens, exact KV events without delay, one router. Rows of a trace's second that share a time stamp are spread at random by seed; latencies of the first tenth of the requests are left out.",
    '- Load: time that the prompts would take without any cache over the time of all workers. Memory ratio: different blocks of what is replayed over blocks of all workers; of sessions, their peak live working set over blocks of all workers.',
    `- Sessions: copies of each line (agentic ${LAB_TRACES.agentic.copies}, sub-agents ${LAB_TRACES.subagent.copies}), those with prompts above 260,000 tokens left out, starts within 90 minutes.`,
    ...(builds > 1
      ? [
          `- The replays are of ${builds} builds: a build that changes nothing of a policy repeats its replays to the last digit, but figures of policies that differ between them are not of one version.`,
        ]
      : []),
  ];
}

/** Points about where nothing is won, and what the figures do not say. */
export function limits(results) {
  const light = (trace) => {
    const [lowest] = LAB_TRACES[trace].loads;
    const cells = results.select({
      study: 'main',
      timing: '8b',
      trace,
      policy: 'expected-time',
      load: lowest,
    });
    const value = results.overall(cells, 'ttft', 'default');
    return value === null ? 'not run' : `${value.toFixed(2)} at load ${lowest} (${trace})`;
  };
  const both = (trace) => {
    const of = (policy) => {
      const cells = results.select({ study: 'main', timing: '8b', trace, policy });
      const means = ['ttft', 'e2e'].map((figure) => results.overall(cells, figure, 'default'));
      return means.includes(null) ? 'not run' : means.map((one) => one.toFixed(2)).join(' / ');
    };
    return `${of('tuned-cost')} with \`tuned-cost\`, ${of('expected-time')} with \`expected-time\` (${trace})`;
  };
  return [
    `- At light load there is little to win: mean TTFT against \`default\` is ${REQUESTS.map(light).join(' and ')}. Means over loads are carried by the loads near saturation, where some baselines no longer keep up and latencies depend on how long the trace is.`,
    `- Weights and counting blocks in flight give much of it without any model of time: mean TTFT / mean E2E against \`default\` are ${REQUESTS.map(both).join(' and ')}.`,
    '- Sessions at the edge of memory thrash under every policy; there now `expected-time`, now `tuned-cost` is the better one: [sessions that thrash](findings-tuning.md#sessions-that-thrash). Where the tail of the prototype came from, and what was done about it, stands [there](findings-tuning.md), too.',
    '- Two request traces and one collection of sessions, all public; engines are simulated, and the gain in E2E leans on passes in which prefill holds up decoding. Engines that overlap the two will show less. The timing profiles were not measured on your machines.',
    '- Exact events, no failures, no pre-emption of note, output lengths unknown to the router. Nothing here says what a real fleet gives.',
  ];
}
