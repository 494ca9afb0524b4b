// ZeroMQ, with room for the sockets of a large fleet: a subscription takes three with those that tell of its connection, and a
// question to an engine one more.

/** As many as libzmq allows; those not made cost eight bytes each. Its default of 1,023 is too few for 341 ranks. */
const MAX_SOCKETS = 65_535;

/** The library; loaded on the first call, which must come before any socket is made. */
export async function loadZeromq(): Promise<typeof import('zeromq')> {
  const zeromq = await import('zeromq');
  if (zeromq.context.maxSockets !== MAX_SOCKETS) zeromq.context.maxSockets = MAX_SOCKETS;
  return zeromq;
}
