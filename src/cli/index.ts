// What the package's entry takes from the program; the commands themselves are nobody's to import.
export {
  type EmbeddedRouter,
  type EmbeddedRouterOptions,
  startEmbeddedRouter,
} from './embedded-router.ts';
