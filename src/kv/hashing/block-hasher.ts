// Which block hasher runs: the WebAssembly kernel, or plain TypeScript where it is refused.
import { loadKernel } from './kernel.ts';
import { createReferenceHasher } from './reference-hasher.ts';
import type { BlockHasher } from './types.ts';
import { runtimeWebAssembly, type WebAssemblyApi } from './wasm-api.ts';
import { WasmHasher } from './wasm-hasher.ts';

/**
 * A block hasher for this thread. Calls are synchronous, so one hasher serves the whole thread; each has a memory of its own.
 * Its methods throw PM_KV_TOO_LONG (a prompt or chain above 4 Mi tokens or blocks, bytes above 16 MiB) and PM_KV_ARGUMENT
 * (a block size below 1, half a hash, an output of the wrong length).
 * @param api the WebAssembly to use, null for none; default: the runtime's.
 */
export function createBlockHasher(api: WebAssemblyApi | null = runtimeWebAssembly()): BlockHasher {
  const kernel = loadKernel(api);
  return kernel === null ? createReferenceHasher() : new WasmHasher(kernel);
}
