// What a request says about handing KV over, in vLLM's and SGLang's fields, and what a prefill's answer says: read and written the same
// in both shells.
import { PointsmanError } from '../plugin/index.ts';
import type { SimulatedEngineSettings, SimulatedHandoff, SimulatedResult, SimulatedRole } from './types.ts';

const MAX_NAME = 1024;
const MAX_ROOM = (1n << 63n) - 1n;

/** The fields of a request, unchecked; undefined or null = absent. */
export interface HandoffFields {
  readonly kvTransferParams: unknown;
  readonly bootstrapHost: unknown;
  readonly bootstrapPort: unknown;
  readonly bootstrapRoom: unknown;
  readonly prefillRank: unknown;
}

/** Who reads. */
export interface HandoffReader {
  readonly role: SimulatedRole;
  readonly requestId: string;
  /** Blocks of the prompt, the last one perhaps partly filled. */
  readonly promptBlocks: number;
  /** Control channel at an address. */
  endpointOf(host: string, port: number): string;
}

/**
 * A request's part in a handoff; null = it has none.
 * @throws PointsmanError PM_SIM_INVALID
 */
export function readHandoff(fields: HandoffFields, reader: HandoffReader): SimulatedHandoff | null {
  const { role } = reader;
  if ((fields.bootstrapRoom ?? null) !== null) return readRoom(fields, reader);
  const params = fields.kvTransferParams;
  if (!isObject(params)) return null;
  const gives = params.do_remote_decode === true;
  const takes = params.do_remote_prefill === true;
  if (!gives && !takes) return null;
  if (gives && takes) throw invalid('do_remote_decode and do_remote_prefill cannot both be true');
  if (role !== 'aggregated' && (role === 'prefill') !== gives) {
    throw invalid(`this engine has the role ${role} and takes no ${gives ? 'prefill' : 'decode'} leg`);
  }
  return gives ? readPrefill(params, reader) : readDecode(params, reader);
}

/** What a prefill's answer says of its blocks, as `kv_transfer_params`. @param key of the handoff. */
export function handoffAnswer(
  { blockIds, key }: NonNullable<SimulatedResult['handoff']>,
  engineId: string,
  address: { readonly host: string; readonly port: number },
  promptTokens: number,
): Readonly<Record<string, unknown>> | null {
  const requestId = key.startsWith(REQUEST) ? key.slice(REQUEST.length) : null;
  // The other connectors relay nothing.
  if (requestId === null) return null;
  return {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: engineId,
    remote_block_ids: blockIds,
    remote_request_id: requestId,
    remote_host: address.host,
    remote_port: address.port,
    remote_num_tokens: promptTokens,
    tp_size: 1,
  };
}

/** How an engine advertises that it hands KV over (`handoff` of its capabilities). @param engineId null = it names no run. */
export function advertisedHandoff(
  { handoff: kind }: Pick<SimulatedEngineSettings, 'handoff'>,
  engineId: string | null,
  { host, port: at }: { readonly host: string; readonly port: number },
): Readonly<Record<string, unknown>> {
  return kind === 'nixl' ? { kind } : { kind, host, port: at, ...(engineId && { engine_id: engineId }) };
}

const REQUEST = 'request:';

function readPrefill(params: Fields, { requestId }: HandoffReader): SimulatedHandoff {
  const transferId = params.transfer_id ?? null;
  const key = transferId === null ? `${REQUEST}${requestId}` : `transfer:${name(transferId, 'transfer_id')}`;
  return { leg: 'prefill', key, rendezvous: false };
}

function readDecode(params: Fields, reader: HandoffReader): SimulatedHandoff {
  const engineId =
    (params.remote_engine_id ?? null) === null ? null : name(params.remote_engine_id, 'remote_engine_id');
  if ((params.transfer_id ?? null) !== null) {
    const address = name(params.remote_bootstrap_addr, 'remote_bootstrap_addr');
    const url = URL.canParse(address) ? new URL(address) : null;
    if (url === null || url.port === '')
      throw invalid('remote_bootstrap_addr must be a url such as http://host:8998');
    const endpoint = reader.endpointOf(url.hostname, Number(url.port));
    return {
      leg: 'decode',
      endpoint,
      engineId,
      key: `transfer:${name(params.transfer_id, 'transfer_id')}`,
      early: true,
    };
  }
  const endpoint = reader.endpointOf(
    name(params.remote_host, 'remote_host'),
    port(params.remote_port, 'remote_port'),
  );
  const remote = params.remote_request_id ?? null;
  if (remote === null)
    return { leg: 'decode', endpoint, engineId, key: `${REQUEST}${reader.requestId}`, early: true };
  const blocks = params.remote_block_ids;
  if (!Array.isArray(blocks) || blocks.length !== reader.promptBlocks) {
    throw invalid(
      `remote_block_ids must name the ${reader.promptBlocks} blocks of the prompt, as the prefill answered them`,
    );
  }
  return {
    leg: 'decode',
    endpoint,
    engineId,
    key: `${REQUEST}${name(remote, 'remote_request_id')}`,
    early: false,
  };
}

function readRoom(fields: HandoffFields, { endpointOf, role }: HandoffReader): SimulatedHandoff {
  const room = integer(fields.bootstrapRoom, MAX_ROOM, 'bootstrap_room');
  const host = name(fields.bootstrapHost, 'bootstrap_host');
  const at = port(fields.bootstrapPort, 'bootstrap_port');
  if ((fields.prefillRank ?? null) !== null)
    integer(fields.prefillRank, 0xffffffffn, 'disagg_prefill_dp_rank');
  const key = `room:${room}`;
  if (role === 'prefill') return { leg: 'prefill', key, rendezvous: true };
  if (role === 'decode')
    return { leg: 'decode', endpoint: endpointOf(host, at), engineId: null, key, early: true };
  throw invalid('bootstrap_room takes an engine of role prefill or decode');
}

type Fields = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function name(value: unknown, field: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= MAX_NAME) return value;
  throw invalid(`${field} must be a text of 1 to ${MAX_NAME} characters`);
}

function port(value: unknown, field: string): number {
  return Number(integer(value, 65_535n, field));
}

function integer(value: unknown, most: bigint, field: string): bigint {
  const exact = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof exact === 'bigint' && exact >= 0n && exact <= most) return exact;
  throw invalid(`${field} must be a whole number from 0 to ${most}`);
}

function invalid(sentence: string): PointsmanError {
  return new PointsmanError('PM_SIM_INVALID', sentence);
}
