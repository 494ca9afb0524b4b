// Loads node-llama-cpp, which is llama.cpp inside this process: an optional package, of which only a prebuilt program for CPUs is used.
// Nothing is built or downloaded, and one thread computes: with two, a busy machine spends its time on waiting.
import { existsSync } from 'node:fs';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { GgufModel, LoadedLlama } from './llama-types.ts';

/** The version that this one is tested with. */
export const NODE_LLAMA_VERSION = '3.22.1';

const REMEDY = `npm install --omit=optional node-llama-cpp@${NODE_LLAMA_VERSION} @node-llama-cpp/linux-x64@${NODE_LLAMA_VERSION} (or the package of your platform)`;

/** Loads the library. @throws PointsmanError PM_LLAMA_MISSING when it is not installed, or has no program for this machine. */
export async function loadNodeLlama(): Promise<LoadedLlama> {
  let library: typeof import('node-llama-cpp');
  try {
    library = await import('node-llama-cpp');
  } catch (cause) {
    throw missing('node-llama-cpp is not installed', cause);
  }
  try {
    return await library.getLlama({
      build: 'never',
      skipDownload: true,
      gpu: false,
      maxThreads: 1,
      progressLogs: false,
      logLevel: library.LlamaLogLevel.error,
      // What llama.cpp has to say comes as an error too; its own lines would tell paths on somebody's terminal.
      logger() {},
    });
  } catch (cause) {
    throw missing('node-llama-cpp has no program for this machine', cause);
  }
}

/**
 * Loads a model.
 * @param vocabularyOnly its weights are not needed.
 * @throws PointsmanError PM_LLAMA_MODEL naming the file that is missing, or is no model that llama.cpp loads.
 */
export async function loadGguf(
  llama: LoadedLlama,
  path: string,
  vocabularyOnly: boolean,
): Promise<GgufModel> {
  if (!existsSync(path)) throw unusable(path, 'does not exist');
  try {
    return await llama.loadModel({ modelPath: path, vocabOnly: vocabularyOnly });
  } catch (cause) {
    throw unusable(path, `is no GGUF model that llama.cpp loads (${errorText(cause)})`, cause);
  }
}

/** Whether a path names a GGUF model rather than a tokenizer.json. */
export function isGguf(path: string): boolean {
  return path.toLowerCase().endsWith('.gguf');
}

function missing(problem: string, cause: unknown): PointsmanError {
  return new PointsmanError('PM_LLAMA_MISSING', `${problem}; install it: ${REMEDY}`, { cause });
}

function unusable(path: string, problem: string, cause?: unknown): PointsmanError {
  return new PointsmanError('PM_LLAMA_MODEL', `${path} ${problem}`, { cause, details: { file: path } });
}
