// Starts a plugin's thread from TypeScript sources, for tests that run without a build; the built package does not use it.
import { createJiti } from 'jiti';

await createJiti(import.meta.url).import('./isolation-worker.ts');
