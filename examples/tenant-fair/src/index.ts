// What the package offers: list it under `plugins`, and name the type `tenant-fair` as the request classifier.
export { tenantFair, tenantFair as default } from './tenant-fair.ts';
