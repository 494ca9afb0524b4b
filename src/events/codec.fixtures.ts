// Byte strings of KV event batches as engines write them, in hex, for tests. Made with msgspec from the engines' own event
// classes; timestamp 1700000000.5 unless said otherwise.

/** Bytes from hex with spaces. */
export function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex.replaceAll(/\s/g, ''), 'hex'));
}

const TS = 'cb 41d954fc40200000';
const TYPE = 'a4 74797065';
const HASHES = 'ac 626c6f636b5f686173686573';
const MEDIUM = 'a6 6d656469756d';
const GROUP = 'a9 67726f75705f696478';

/** Every layout in the field, with its length in bytes. */
export const BATCHES = {
  mapStore: {
    length: 175,
    bytes: fromHex(`93 ${TS} 91 8a ${TYPE} ab 426c6f636b53746f726564 ${HASHES} 91 cf 1122334455667788
      b1 706172656e745f626c6f636b5f68617368 c0 a9 746f6b656e5f696473 94 01 02 03 04 aa 626c6f636b5f73697a65 04
      a7 6c6f72615f6964 c0 ${MEDIUM} a3 475055 a9 6c6f72615f6e616d65 c0 ${GROUP} 00
      b2 6b765f63616368655f737065635f6b696e64 ae 66756c6c5f617474656e74696f6e 00`),
  },
  mapRemoval: {
    length: 76,
    bytes: fromHex(`93 ${TS} 91 84 ${TYPE} ac 426c6f636b52656d6f766564 ${HASHES} 91 cf 1122334455667788
      ${MEDIUM} a3 475055 ${GROUP} 00 00`),
  },
  mapClear: {
    length: 35,
    bytes: fromHex(`93 ${TS} 91 81 ${TYPE} b0 416c6c426c6f636b73436c6561726564 00`),
  },
  arrayStore: {
    length: 67,
    bytes: fromHex(`93 ${TS} 91 9c ab 426c6f636b53746f726564 92 fe cffffffffffffffffe cf0102030405060708
      94 01 02 cd012c ce00011170 02 c0 a3475055 c0 c0 c0 c0 c0 01`),
  },
  arrayRemoval: {
    length: 48,
    bytes: fromHex(`93 ${TS} 91 94 ac 426c6f636b52656d6f766564 91 cf1122334455667788
      aa 4350555f50494e4e4544 c0 c0`),
  },
  arrayClear: { length: 30, bytes: fromHex(`93 ${TS} 91 91 b0 416c6c426c6f636b73436c6561726564 00`) },
  /** Block hash as the whole digest: the last 8 bytes are its value. */
  digestRemoval: {
    length: 65,
    bytes: fromHex(`93 ${TS} 91 93 ac 426c6f636b52656d6f766564 91
      c420 000102030405060708090a0b0c0d0e0f1011121314151617 1122334455667788 a3 475055 c0`),
  },
  /** Timestamp 1.0, batch as a map. */
  mapBatchClear: {
    length: 64,
    bytes:
      fromHex(`83 a2 7473 cb3ff0000000000000 a6 6576656e7473 91 81 ${TYPE} b0 416c6c426c6f636b73436c6561726564
      b2 646174615f706172616c6c656c5f72616e6b 00`),
  },
} as const;
