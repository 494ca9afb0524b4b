import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { MAX_BATCH_ITEMS, MAX_ITEMS_PER_BLOCK } from './block-identity.ts';
import { decodeEventBatch } from './decode-batch.ts';
import type { BlockStoredEvent } from './types.ts';

const DIGEST = '0123456789abcdef'.repeat(4);
const ITEM = Uint32Array.of(0x89abcdef, 0x01234567);

/** A store of two blocks of two tokens, decoded. */
function store(extra: object): BlockStoredEvent {
  const event = {
    type: 'BlockStored',
    block_hashes: [1, 2],
    token_ids: [1, 2, 3, 4],
    block_size: 2,
    ...extra,
  };
  const [decoded] = decodeEventBatch(encode([1, [event], 0])).events;
  if (decoded?.kind !== 'stored') throw new Error('it is a store');
  return decoded;
}

function identity(extra: object): unknown {
  const { cacheSalt, multimodal, scope } = store(extra);
  return {
    ...(cacheSalt === null ? null : { cacheSalt }),
    ...(multimodal === undefined ? null : { multimodal }),
    ...(scope?.unsupported ? { unsupported: scope.unsupported } : null),
  };
}

describe('extra keys of a store', () => {
  it('name the salt with Dynamo’s prefix, in the first block’s entry', () => {
    expect(identity({ extra_keys: [['dynamo-cache-salt:tenant'], null] })).toEqual({ cacheSalt: 'tenant' });
    expect(identity({ extra_keys: [null, ['dynamo-cache-salt:tenant']] })).toEqual({
      unsupported: 'extra_keys',
    });
    expect(identity({ extra_keys: [['dynamo-cache-salt:a']], parent_block_hash: 9 })).toEqual({
      cacheSalt: 'a',
    });
  });

  it('have one entry that is the adapter’s name, whatever it looks like', () => {
    const lora_name = 'dynamo-cache-salt:adapter';
    expect(identity({ lora_name, extra_keys: [[lora_name], [lora_name]] })).toEqual({});
    expect(identity({ lora_name, extra_keys: [[lora_name, 'dynamo-cache-salt:t'], [lora_name]] })).toEqual({
      cacheSalt: 't',
    });
    expect(identity({ lora_name: DIGEST, extra_keys: [[DIGEST], [DIGEST]] })).toEqual({});
  });

  it('lose to the salt of the field of its own', () => {
    expect(identity({ cache_salt: 'own', extra_keys: [['dynamo-cache-salt:other']] })).toEqual({
      cacheSalt: 'own',
    });
    expect(identity({ cache_salt: 'own', extra_keys: [['own']] })).toEqual({ cacheSalt: 'own' });
    expect(identity({ extra_keys: [['dynamo-cache-salt:other']], cache_salt: 'own' })).toEqual({
      cacheSalt: 'own',
    });
  });

  it('name the salt bare where vLLM was given it without the prefix: at the begin of a chain, nowhere else', () => {
    expect(identity({ extra_keys: [['tenant'], null] })).toEqual({ cacheSalt: 'tenant' });
    expect(identity({ extra_keys: [['tenant'], null], parent_block_hash: 5 })).toEqual({
      unsupported: 'extra_keys',
    });
    expect(identity({ extra_keys: [null, ['tenant']] })).toEqual({ unsupported: 'extra_keys' });
    expect(identity({ extra_keys: [['tenant', 'more']] })).toMatchObject({ unsupported: 'extra_keys' });
  });

  it('name items as pairs with any id and offset, and as bare digests', () => {
    expect(identity({ extra_keys: [[[DIGEST, -3]], [DIGEST]] })).toEqual({ multimodal: [ITEM, ITEM] });
    expect(identity({ extra_keys: [null, [['opaque-renderer-image-0', 0]]] })).toEqual({
      multimodal: [null, Uint32Array.of(0xe51891a1, 0xc85cacd6)],
    });
    expect(
      identity({
        extra_keys: [
          [
            [DIGEST, 0],
            [DIGEST, 1],
          ],
          null,
        ],
      }),
    ).toEqual({ multimodal: [ITEM, null] });
  });

  it('leave a block out that holds what the router has no hash for', () => {
    for (const key of [new Uint8Array(32), 7, 1.5, true, null, [1, 2], ['id'], ['id', 'x'], ['', 0]]) {
      expect(identity({ extra_keys: [[key]] })).toMatchObject({ unsupported: 'extra_keys' });
    }
    expect(identity({ extra_keys: [null, null, [[DIGEST, 0]]] })).toEqual({ unsupported: 'extra_keys' });
  });

  it('are bounded per block and per batch', () => {
    const many = Array.from({ length: MAX_ITEMS_PER_BLOCK + 1 }, (_, at) => [`item ${at}`, 0]);
    expect(identity({ extra_keys: [many.slice(1)] })).not.toHaveProperty('unsupported');
    expect(identity({ extra_keys: [many] })).toMatchObject({ unsupported: 'extra_keys' });
    const flood = Array.from({ length: MAX_BATCH_ITEMS + 1 }, () => ['x', 0]);
    expect(() => store({ extra_keys: [flood] })).toThrow('a batch names at most 262144 multimodal items');
  });
});

describe('block_mm_infos of a store', () => {
  it('give the items’ hashes as numbers of 64 bits, signed or not', () => {
    const infos = [
      { mm_objects: [{ mm_hash: 42, offsets: [[0, 2]] }, { offsets: [], mm_hash: -1 }, { mm_hash: 42 }] },
      null,
    ];
    expect(identity({ block_mm_infos: infos })).toEqual({
      multimodal: [Uint32Array.of(42, 0, 0xffffffff, 0xffffffff), null],
    });
    expect(identity({ block_mm_infos: [{ mm_objects: null, other: 1 }, { mm_objects: [] }] })).toEqual({});
  });

  it('join what the extra keys say', () => {
    expect(
      identity({ block_mm_infos: [{ mm_objects: [{ mm_hash: 42 }] }], extra_keys: [[[DIGEST, 0]]] }),
    ).toEqual({ multimodal: [Uint32Array.of(...ITEM, 42, 0), null] });
  });

  it('must name a hash', () => {
    expect(() => store({ block_mm_infos: [{ mm_objects: [{ offsets: [] }] }] })).toThrow(
      /a multimodal object must have mm_hash$/,
    );
  });
});

describe('token ids in pairs', () => {
  it('become their first ones and the second of the last', () => {
    const pairs = {
      token_ids: [
        [1, 2],
        [2, 3],
        [3, 70_000],
        [70_000, 5],
      ],
    };
    expect(store(pairs)).toMatchObject({ bigrams: true, tokenIds: Uint32Array.of(1, 2, 3, 70_000, 5) });
    expect(store({}).bigrams).toBeUndefined();
    expect(() => store({ token_ids: [[1, 2, 3]] })).toThrow(/a pair of token ids must have 2$/);
    expect(() => store({ token_ids: [[1, 2], 3] })).toThrow(/a pair of token ids must be an array$/);
  });
});
