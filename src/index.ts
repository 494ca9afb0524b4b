// The package's entry: what an embedder imports from `pointsman`.
export { PointsmanError } from './plugin/index.ts';
