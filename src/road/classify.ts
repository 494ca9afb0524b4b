// The classify step: when and as what a request enters the queue. So far nothing classifies: every request belongs to the one
// class and is due at once.

/** What classification says of a request. */
export interface Classification {
  readonly policyClass: string;
}

const DEFAULT_CLASS: Classification = { policyClass: 'default' };

/** Passes every request through as class `default`. */
export function classifyPassThrough(): Classification {
  return DEFAULT_CLASS;
}
