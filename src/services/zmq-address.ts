// Where engines publish.

/** Whether a text is a ZeroMQ address that can be connected to. */
export function isZmqAddress(text: string): boolean {
  return /^(?:tcp:\/\/[^\s/]+:\d{1,5}|ipc:\/\/\S+)$/.test(text);
}
