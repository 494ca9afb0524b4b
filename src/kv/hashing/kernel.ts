// Loads the WebAssembly kernel: synchronously, so that a hasher exists before the first request, and compiled once per thread.
import { KERNEL_BASE64 } from './kernel.generated.ts';
import type { WasmMemory, WasmModule, WebAssemblyApi } from './wasm-api.ts';

/** Exports of wasm/kernel.ts; pointers are byte offsets into `memory`, hashes there are little-endian u64. */
export interface HashKernel {
  readonly memory: WasmMemory;
  /** First byte of memory that the kernel does not use itself. */
  heapBase(): number;
  hashPrompt(
    tokens: number,
    blocks: number,
    blockBytes: number,
    seedLo: number,
    seedHi: number,
    local: number,
    sequence: number,
  ): void;
  chain(
    parentLo: number,
    parentHi: number,
    hasParent: number,
    local: number,
    count: number,
    out: number,
  ): void;
  hashBytes(input: number, length: number, seedLo: number, seedHi: number, out: number): void;
}

const compiled = new WeakMap<WebAssemblyApi, WasmModule | null>();

/** A fresh instance of the kernel with its own memory, or null where the runtime refuses it (no WebAssembly, or no SIMD). */
export function loadKernel(api: WebAssemblyApi | null): HashKernel | null {
  if (api === null) return null;
  let module = compiled.get(api);
  if (module === undefined) {
    module = compile(api);
    compiled.set(api, module);
  }
  if (module === null) return null;
  try {
    // The binary is built from wasm/kernel.ts, a test holds it to that, and its exports are those of HashKernel.
    return new api.Instance(module, {}).exports as HashKernel;
  } catch {
    // No address space for one more memory: slower hashing is better than none.
    return null;
  }
}

function compile(api: WebAssemblyApi): WasmModule | null {
  const binary = Buffer.from(KERNEL_BASE64, 'base64');
  if (!api.validate(binary)) return null;
  try {
    return new api.Module(binary);
  } catch {
    return null;
  }
}
