// The part of the WebAssembly JavaScript API that the kernels need. Node's type package declares it only from Node 22
// on, and it may be missing at run time as well (node --jitless).

/** A compiled module. */
export type WasmModule = object;

/** Linear memory of an instance; `buffer` is another object after every growth. */
export interface WasmMemory {
  readonly buffer: ArrayBuffer;
  /** Grows by 64 KiB pages; throws a RangeError beyond the maximum or when the system refuses. */
  grow(pages: number): number;
}

/** The WebAssembly namespace object. */
export interface WebAssemblyApi {
  validate(bytes: Uint8Array): boolean;
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Memory: new (pages: { readonly initial: number; readonly maximum: number }) => WasmMemory;
  readonly Instance: new (module: WasmModule, imports: object) => { readonly exports: object };
}

/** The runtime's WebAssembly, null where it has none. */
export function runtimeWebAssembly(): WebAssemblyApi | null {
  const api: unknown = Reflect.get(globalThis, 'WebAssembly');
  return typeof api === 'object' && api !== null ? (api as WebAssemblyApi) : null;
}
