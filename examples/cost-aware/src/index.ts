// What the package offers: list it under `plugins`, and use the type `cost-aware`.
export { costAware, costAware as default } from './cost-aware.js';
