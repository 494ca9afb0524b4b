// Standard Schema (standardschema.dev), copied structurally so that the contract needs no dependency: zod, valibot, arktype
// and hand-written schemas all fit.

/** One thing a schema found wrong. */
export interface SchemaIssue {
  readonly message: string;
  /** Path to the offending value; elements may be bare keys or `{ key }`. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What validation gives back: the output value, or the issues. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** A schema of a plugin's parameters; validation may be asynchronous. */
export interface ParameterSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The parsed parameters of a schema: its output type. */
export type Parameters<S extends ParameterSchema> = NonNullable<S['~standard']['types']>['output'];

/** Parameters of a plugin that declares no schema: an object without members, so that reading any name is an error. */
export type NoParameters = Readonly<Record<never, never>>;
