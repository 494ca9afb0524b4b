// Loads the WebAssembly kernel of the cost scan: synchronously, compiled once per thread.
import { runtimeWebAssembly, type WasmMemory, type WasmModule } from '../kv/index.ts';
import { SCAN_KERNEL_BASE64 } from './scan-kernel.generated.ts';

type Evaluated<More extends unknown[]> = (
  columns: number,
  stride: number,
  device: number,
  count: number,
  promptTokens: number,
  blockSize: number,
  creditWeight: number,
  prefillScale: number,
  ...more: More
) => number;

type EvaluatedTimes<More extends unknown[]> = (
  columns: number,
  stride: number,
  device: number,
  count: number,
  terms: number,
  least: number,
  ...more: More
) => number;

/** Exports of wasm/scan.ts; positions are byte offsets into its memory. */
export interface ScanKernel {
  readonly deviceCosts: Evaluated<[]>;
  readonly tierCosts: Evaluated<[hostWeight: number, diskWeight: number, requestWeight: number]>;
  readonly flyingDeviceCosts: Evaluated<[]>;
  readonly flyingTierCosts: Evaluated<[hostWeight: number, diskWeight: number, requestWeight: number]>;
  readonly decayedDeviceCosts: Evaluated<[decayWeight: number, requestBlocks: number]>;
  readonly decayedTierCosts: Evaluated<
    [
      hostWeight: number,
      diskWeight: number,
      requestWeight: number,
      decayWeight: number,
      requestBlocks: number,
    ]
  >;
  readonly deviceTimes: EvaluatedTimes<[scratch: number]>;
  readonly roomyDeviceTimes: EvaluatedTimes<[scratch: number]>;
  readonly hostTimes: EvaluatedTimes<[]>;
  softmax(
    costs: number,
    weights: number,
    masses: number,
    table: number,
    total: number,
    count: number,
    temperature: number,
  ): number;
  drawnRow(weights: number, masses: number, count: number, target: number): number;
}

/** A kernel over a memory of its own. */
export interface ScanInstance {
  readonly kernel: ScanKernel;
  readonly memory: WasmMemory;
}

const PAGE_BYTES = 65_536;

let compiled: WasmModule | null | undefined;

/** A kernel with at least `bytes` of memory; null where the runtime has no WebAssembly, no SIMD, or no room for it. */
export function loadScanKernel(bytes: number): ScanInstance | null {
  const api = runtimeWebAssembly();
  if (api === null) return null;
  try {
    if (compiled === undefined) {
      const binary = Buffer.from(SCAN_KERNEL_BASE64, 'base64');
      compiled = api.validate(binary) ? new api.Module(binary) : null;
    }
    if (compiled === null) return null;
    const pages = Math.ceil(bytes / PAGE_BYTES);
    const memory = new api.Memory({ initial: pages, maximum: pages });
    // The binary is built from wasm/scan.ts, a test holds it to that, and its exports are those of ScanKernel.
    const kernel = new api.Instance(compiled, { env: { memory } }).exports as ScanKernel;
    return { kernel, memory };
  } catch {
    // Compiling may be forbidden, address space may run out: the plain loops do the same work.
    return null;
  }
}
