// Reads KV hints as SGLang's storage backend does: the first well-formed fetch, and nothing else; it never fails a request.

/** The envelope of new releases, or the bare payload of those of early 2026. */
export type HintField = 'kv_hints' | 'kv_router_hint';

type Fields = Readonly<Record<string, unknown>>;

const TWO_64 = 1n << 64n;

/** The hint for the engine: an envelope with one fetch; null = nothing that can be used. */
export function readHint(body: Fields, field: HintField): unknown {
  const given = body[field];
  if (!isObject(given)) return null;
  if (field === 'kv_router_hint') return envelopeOf(given);
  const actions: readonly unknown[] = Array.isArray(given.actions) ? given.actions : [];
  for (const action of actions) {
    if (!isObject(action) || !isObject(action.payload) || action.action_version !== '1.0') continue;
    if (action.action_type !== 'kv.fetch' && action.action_type !== 'kv.source_locations') continue;
    const found = envelopeOf(action.payload);
    if (found !== null) return found;
  }
  return null;
}

function envelopeOf(payload: Fields): unknown {
  const { block_hashes: hashes, source_control_endpoint: endpoint } = payload;
  if (typeof endpoint !== 'string' || endpoint === '' || !Array.isArray(hashes)) return null;
  const blocks: bigint[] = [];
  for (const value of hashes as readonly unknown[]) {
    const hash = hashOf(value);
    // What cannot be read ends the list: a prefix has no holes.
    if (hash === null) break;
    blocks.push(hash);
  }
  if (blocks.length === 0) return null;
  return {
    protocol_version: '0.1',
    message_id: '',
    actions: [
      {
        action_id: 'a1',
        action_type: 'kv.fetch',
        action_version: '1.0',
        payload: { source_control_endpoint: endpoint, block_hashes: blocks },
      },
    ],
  };
}

/** A whole number, where a negative one is a signed form, or hexadecimal text of which the first 16 digits count. */
function hashOf(value: unknown): bigint | null {
  if (typeof value === 'string') {
    const [digits] = /^[0-9a-fA-F]{1,16}/.exec(value) ?? [];
    return digits === undefined || !/^[0-9a-fA-F]+$/.test(value) ? null : BigInt(`0x${digits}`);
  }
  const whole = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof whole !== 'bigint' || whole >= TWO_64 || whole < -TWO_64 / 2n) return null;
  return BigInt.asUintN(64, whole);
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
