// A file with the times of kinds of workers, named by `router.timing_profile`: where learning starts, or what is taken for granted. The admin
// API writes what was learnt in the same form; JSON is YAML.
import type { Role } from '../plugin/index.ts';
import { problemsOf } from './issues.ts';
import type { ConfigProblem } from './types.ts';
import { anyText, flag, list, mapping, or, orNull, positive, text, word } from './values.ts';

/** As many kinds as are told apart. */
const MOST_KINDS = 64;

/** Times stated of kinds of workers. A null label is any; a null time is not stated. */
export interface StatedKind {
  readonly model: string | null;
  readonly role: Role | null;
  /** Engine dialect. */
  readonly engine: string | null;
  readonly device: string | null;
  /** Ms, as in `WorkerTiming`. */
  readonly prefillTokenMs: number | null;
  readonly prefillAttentionMs: number | null;
  readonly prefillPassMs: number | null;
  readonly decodeMs: number | null;
  readonly decodeFillMs: number | null;
  /** Whether nothing is learnt on top. */
  readonly fixed: boolean;
}

const schema = mapping({
  kinds: list(
    mapping({
      model: orNull(text()),
      role: orNull(word(['aggregated', 'prefill', 'decode', 'encode'])),
      engine: orNull(text()),
      device: orNull(anyText()),
      prefill_us_per_token: orNull(positive()),
      attention_ns_per_pair: orNull(positive()),
      prefill_ms_per_prompt: orNull(positive()),
      decode_ms: orNull(positive()),
      decode_fill_ms: orNull(positive()),
      fixed: or(flag(), false),
    }),
    'kinds',
  ),
});

/** Checks the content of a profile file. */
export function parseTimingProfile(
  written: Readonly<Record<string, unknown>>,
): { readonly kinds: readonly StatedKind[] } | { readonly problems: readonly ConfigProblem[] } {
  const parsed = schema.safeParse(written);
  if (!parsed.success) return { problems: parsed.error.issues.flatMap(problemsOf) };
  const { kinds } = parsed.data;
  if (kinds.length > MOST_KINDS) {
    const message = `has ${kinds.length} kinds; at most ${MOST_KINDS} are told apart`;
    return {
      problems: [{ severity: 'error', code: 'PM_CONFIG_VALUE', path: ['kinds'], anchor: 'value', message }],
    };
  }
  return {
    kinds: kinds.map((kind) => ({
      model: kind.model,
      role: kind.role,
      engine: kind.engine,
      device: kind.device,
      prefillTokenMs: times(kind.prefill_us_per_token, 1e-3),
      prefillAttentionMs: times(kind.attention_ns_per_pair, 1e-6),
      prefillPassMs: kind.prefill_ms_per_prompt,
      decodeMs: kind.decode_ms,
      decodeFillMs: kind.decode_fill_ms,
      fixed: kind.fixed,
    })),
  };
}

/** The same for a file, as {@link parseTimingProfile} reads it. */
export function writtenTimingProfile(kinds: readonly StatedKind[]): object {
  return {
    kinds: kinds.map((kind) => ({
      model: kind.model,
      role: kind.role,
      engine: kind.engine,
      device: kind.device,
      prefill_us_per_token: times(kind.prefillTokenMs, 1e3),
      attention_ns_per_pair: times(kind.prefillAttentionMs, 1e6),
      prefill_ms_per_prompt: kind.prefillPassMs,
      decode_ms: kind.decodeMs,
      decode_fill_ms: kind.decodeFillMs,
      fixed: kind.fixed,
    })),
  };
}

function times(value: number | null, factor: number): number | null {
  return value === null ? null : value * factor;
}
