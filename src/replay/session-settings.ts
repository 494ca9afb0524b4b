// What the options of a session replay may be.
import { invalid, requireWhole } from './replay-settings.ts';
import type { ReplaySettings, SessionReplaySettings } from './types.ts';

/** Copies of every session. */
export const MAX_COPIES = 10_000;
/** A year. */
const MAX_MS = 31_536_000_000;
const MAX_CONTEXT = 4_194_304;
const MAX_BLOCK_SIZE = 4096;
/** Times the working set. */
const MAX_MEMORY = 1000;

/** @throws PM_REPLAY_SETTINGS */
export function checkSessionSettings(settings: ReplaySettings, sessions: SessionReplaySettings): void {
  requireWhole('--block-size', settings.block_size, 1, MAX_BLOCK_SIZE);
  requireWhole('--copies', sessions.copies, 1, MAX_COPIES);
  if (sessions.max_context !== null) requireWhole('--max-context', sessions.max_context, 1, MAX_CONTEXT);
  requireTime('--session-window', sessions.window_ms);
  requireTime('--think-cap', sessions.think_cap_ms);
  const { host_memory: hostMemory, memory } = sessions;
  if (memory !== undefined) requireShare('--memory', memory);
  if (hostMemory !== undefined) requireShare('--host-memory', hostMemory);
  if (settings.model !== 'engine') {
    throw invalid('--model block-list knows no time, which sessions take: take --model engine');
  }
  if (hostMemory !== undefined && memory === undefined && settings.kv_blocks === 'unlimited') {
    throw invalid('--host-memory takes what leaves the KV blocks; give --kv-blocks a number, or --memory');
  }
}

/** @throws PM_REPLAY_SETTINGS unless blocks of an engine and of the trace begin and end together. */
export function checkBlockSizes(blockSize: number, ofTrace: number): void {
  if (ofTrace % blockSize === 0 || blockSize % ofTrace === 0) return;
  throw invalid(
    `--block-size ${blockSize} neither divides the trace's block size ${ofTrace} nor is a multiple of it; take one of them, 64, 128, 256 or 512 for example`,
  );
}

function requireTime(option: string, ms: number): void {
  if (ms >= 0 && ms <= MAX_MS) return;
  throw invalid(`${option} is ${ms} ms; it must be a time from 0 to ${MAX_MS} ms`);
}

function requireShare(option: string, share: number): void {
  if (share > 0 && share <= MAX_MEMORY) return;
  throw invalid(`${option} is ${share}; it must be a number above 0, at most ${MAX_MEMORY}`);
}
