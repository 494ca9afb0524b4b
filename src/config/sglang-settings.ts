// How a worker of dialect `sglang` is spoken to.

/** What differs between releases and flags of SGLang and cannot be seen from outside. */
export interface SglangSettings {
  /** The end of a session is told with `POST /close_session`. */
  readonly closeSession: boolean;
  /** Whether its OpenAI endpoints take the hint field too; stock ones have it at `/generate` alone. */
  readonly openaiHints: boolean;
  /** Member of the body that pins a rank. */
  readonly rankField: 'routed_dp_rank' | 'data_parallel_rank';
  /** It runs with `--schedule-low-priority-values-first`. */
  readonly lowPriorityFirst: boolean;
}
