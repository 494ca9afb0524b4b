// What must hold where `kv_events.RANK.poll` is set.

/**
 * Why the events of a worker cannot be asked for as configured; null = they can.
 * @param others whether an address or a topic is given as well.
 * @param blockSize of the worker's model; null = not configured.
 */
export function polledEventsProblem(
  dialect: string,
  others: boolean,
  blockSize: number | null,
): string | null {
  if (dialect !== 'trtllm')
    return `events are asked for from workers with dialect: trtllm alone, not ${dialect}; give the address where the engine publishes as connect`;
  if (others)
    return 'events are asked for at the url of the worker; leave out connect, bind, replay and topic';
  if (blockSize === null)
    return 'needs block_size of the model: TensorRT-LLM announces partly filled blocks too, and does not say how long a full one is (its tokens_per_block)';
  return null;
}
