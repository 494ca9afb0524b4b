// Starts a tokenizer thread from TypeScript sources, for tests that run without a build; the built package does not use it.
import { createJiti } from 'jiti';

export default (await createJiti(import.meta.url).import('./tokenizer-worker.ts')).default;
