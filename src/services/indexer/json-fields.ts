// Fields of the indexer's requests.
import { fieldReaders } from '../json-fields.ts';

export const {
  badField,
  flagOf,
  hashOf,
  listOf,
  nameOf,
  objectOf,
  optionalNameOf,
  optionalTimeOf,
  u64Of,
  wholeOf,
} = fieldReaders('PM_INDEXER_REQUEST');
