// What a plugin threw, in words for its author, where it is JavaScript's own complaint about reading an input that the plugin did not
// declare: such an input is not on the object, and the complaint names the member that was looked for in it. Costs nothing until
// something is thrown.
import type {
  BlockResidency,
  CacheColumns,
  CopyColumns,
  HintInput,
  KvCopyLocations,
  LoadColumns,
  PhaseColumns,
  SessionLineage,
  TimingColumns,
  WorkerInput,
} from '../plugin/index.ts';

/** Every member of a type once, so that one that is added is not forgotten here. */
type MembersOf<T> = Readonly<Record<keyof T, true>>;

const CACHE: MembersOf<CacheColumns> = {
  effectiveOverlapBlocks: true,
  cachedTokens: true,
  deviceBlocks: true,
  hostBlocks: true,
  diskBlocks: true,
  hasTierMatches: true,
};
const LOAD: MembersOf<LoadColumns> = {
  available: true,
  activePrefillTokens: true,
  decodeCostBlocks: true,
  activeRequests: true,
};
const PHASES: MembersOf<PhaseColumns> = {
  prefillRequests: true,
  prefillTokens: true,
  prefillAttention: true,
  prefillFrontMs: true,
  decodeRequests: true,
  promptTokens: true,
};
const TIMING: MembersOf<TimingColumns> = { kinds: true, kind: true };
const COPIES: MembersOf<CopyColumns> = { copyableBlocks: true, sourcePrefixBlocks: true, link: true };
const LOCATIONS: MembersOf<KvCopyLocations> = { owners: true, localPrefixBlocks: true, bestSource: true };
const LINEAGE: MembersOf<SessionLineage> = {
  nodeOf: true,
  node: true,
  frontiers: true,
  paths: true,
  uniqueBlocks: true,
  exclusiveBlocks: true,
};
const RESIDENCY: MembersOf<BlockResidency> = { tierOf: true };

/** An input as it stands on what a plugin is shown. */
interface ShownInput {
  readonly input: string;
  readonly as: string;
  readonly members: Readonly<Record<string, true>>;
}

/** Inputs of hint policies with members of their own. */
export const HINT_MEMBERS: readonly (ShownInput & { readonly input: HintInput })[] = [
  { input: 'cache', as: 'cache', members: CACHE },
  { input: 'load', as: 'load', members: LOAD },
  { input: 'kv-copy-locations', as: 'copyLocations', members: LOCATIONS },
  { input: 'session-lineage', as: 'lineage', members: LINEAGE },
  { input: 'residency', as: 'residency', members: RESIDENCY },
];

/** Inputs of worker-selection components with members of their own; the others are single columns. */
export const WORKER_MEMBERS: readonly (ShownInput & { readonly input: WorkerInput })[] = [
  { input: 'cache', as: 'cache', members: CACHE },
  { input: 'load', as: 'load', members: LOAD },
  { input: 'request-phases', as: 'phases', members: PHASES },
  { input: 'timing', as: 'timing', members: TIMING },
  { input: 'kv-copy-locations', as: 'copies', members: COPIES },
  { input: 'session-lineage', as: 'lineage', members: LINEAGE },
];

const READ_OF_UNDEFINED =
  /^Cannot (?:read properties of undefined \(reading '(\w+)'\)|destructure property '(\w+)' of .* as it is undefined\.)$/;

/**
 * The thrown value itself, or an error that names the input which is not declared, with it as the cause. Never throws.
 * @param declared the `inputs` of the plugin
 */
export function explainThrown(
  thrown: unknown,
  declared: readonly string[],
  shown: readonly ShownInput[],
): unknown {
  try {
    if (!(thrown instanceof TypeError)) return thrown;
    const { message } = thrown;
    const [, read, destructured] = READ_OF_UNDEFINED.exec(message) ?? [];
    const member = read ?? destructured;
    if (member === undefined) return thrown;
    const found = shown.find(
      ({ input, members }) => !declared.includes(input) && Object.hasOwn(members, member),
    );
    if (found === undefined) return thrown;
    const why = `${found.as} is there only for those who list '${found.input}' under inputs`;
    return new TypeError(`${message}; ${why}`, { cause: thrown });
  } catch {
    // Plugins throw what they like, also what throws when it is looked at.
    return thrown;
  }
}
