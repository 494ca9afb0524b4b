/**
 * Numbers of a plugin's own, shown on `/metrics` as `pointsman_plugin_counts_total` and `pointsman_plugin_gauge` with the labels
 * `plugin`, `name` and `label`. Numbers of several partitions and roles add up. Nothing here throws: what is out of bounds is left out
 * or counted as `other`, and the log says so once.
 *
 * A name is a lower-case word of letters, digits and `_`, at most 64 characters; a plugin has at most 32. A label is a text of at most
 * 64 characters, at most 32 different ones per name; without one it is empty. Never put into it what a client sent.
 */
export interface PluginMetrics {
  /** Adds to a counter; `by` ≥ 0, default 1. */
  count(name: string, by?: number, label?: string): void;
  /** Sets a reading; any finite number. It stays until the next, and ends with the policy. */
  gauge(name: string, value: number, label?: string): void;
}
