// `stream_options` of OpenAI-shaped requests: a stream is always asked for its usage, which clients who did not ask do not get to see.

/** Whether the client itself asked for the usage chunk of its stream. */
export function askedForUsage(body: Readonly<Record<string, unknown>> | null): boolean {
  const options = body?.stream_options;
  return (
    typeof options === 'object' &&
    options !== null &&
    'include_usage' in options &&
    options.include_usage === true
  );
}

/** What the client asked of its stream, usage added. */
export function withUsage(asked: unknown): Record<string, unknown> {
  const options: Record<string, unknown> =
    typeof asked === 'object' && asked !== null && !Array.isArray(asked) ? { ...asked } : {};
  // Without include_usage the other option had no effect; switching usage on must not wake it.
  if (options.include_usage !== true) delete options.continuous_usage_stats;
  options.include_usage = true;
  return options;
}
