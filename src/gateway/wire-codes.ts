// Error codes as clients of the OpenAI doors see them. docs/errors.md lists them from here.

/** Codes that the API has a name of its own for; all others go out as they are. */
export const WIRE_CODES = {
  PM_MODEL_NOT_FOUND: 'model_not_found',
  PM_PROMPT_TOO_LONG: 'context_length_exceeded',
  PM_REQUEST_UNAUTHORIZED: 'invalid_api_key',
  PM_ENGINE_LOST: 'upstream_disconnected',
} as const;

/** Codes of the event that ends a stream after bytes of it went out. */
export const STREAM_END_CODES = {
  /** The router stops. */
  stopping: 'shutting_down',
  /** Whatever else ended the engine's answer. */
  other: 'upstream_disconnected',
} as const;
