// An engine in this process: llama.cpp by way of node-llama-cpp, with the KV bookkeeping, events and hints of a server.
export { LOCAL_EVENTS, type LocalWorker, startLocalWorker } from './local-worker.ts';
