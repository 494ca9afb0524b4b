import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError, seededRng } from '../../plugin/index.ts';
import { createPrefixIndex } from '../residency/extent-index.ts';
import { type CopyableIndex, TIERS } from '../residency/types.ts';
import { restoreSnapshot } from './restore-snapshot.ts';
import {
  apply,
  hasher,
  localsOf,
  namesOf,
  OWNERS,
  ownerOf,
  rowsOf,
  type Step,
  sequencesOf,
  step,
  writerOf,
} from './snapshot.fixtures.ts';
import { readSnapshot } from './snapshot-reader.ts';

const emptyIndex = () => createPrefixIndex({ hasher });
const slotOf = (number: number) => OWNERS[number] ?? null;

function snapshotOf(index: CopyableIndex, rowsPerPiece = 3): Buffer {
  return Buffer.concat([...writerOf(index, rowsPerPiece).pieces()]);
}

function restored(bytes: Uint8Array): CopyableIndex {
  const index = emptyIndex();
  restoreSnapshot(readSnapshot(bytes), index, hasher, slotOf);
  return index;
}

function problem(work: () => unknown): string {
  try {
    work();
  } catch (thrown) {
    if (thrown instanceof PointsmanError) return `${thrown.code}: ${thrown.message}`;
    throw thrown;
  }
  return 'none';
}

/** A file with holes, several tiers and owners. */
function smallFile(): Buffer {
  const index = emptyIndex();
  const store = (owner: number, chain: number[]) =>
    apply(index, { kind: 'store', owner, tier: 'device', chain, from: 0 });
  store(0, [1, 2, 1]);
  store(1, [1, 2, 2]);
  apply(index, { kind: 'remove', owner: 1, tier: 'device', chain: [1, 2, 2], from: 1 });
  apply(index, { kind: 'store', owner: 5, tier: 'host', chain: [2], from: 0 });
  return snapshotOf(index);
}

/** The file with other bytes at a place and a checksum that fits. */
function forged(file: Buffer, change: (bytes: Buffer) => void): Buffer {
  const body = Buffer.from(file.subarray(0, -32));
  change(body);
  return Buffer.concat([body, createHash('sha256').update(body).digest()]);
}

describe('a snapshot', () => {
  it('gives back every row, and the index it gives answers and goes on as the one it was taken of', () => {
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 1, maxLength: 60 }),
        fc.array(step, { maxLength: 30 }),
        fc.integer({ min: 1, max: 5 }),
        (before, after, rowsPerPiece) => {
          const live = emptyIndex();
          for (const event of before) apply(live, event);
          const copy = restored(snapshotOf(live, rowsPerPiece));
          expect(rowsOf(copy)).toEqual(rowsOf(live));
          for (const event of after) {
            apply(live, event);
            apply(copy, event);
          }
          expect(rowsOf(copy)).toEqual(rowsOf(live));
          expectSameMatches(copy, live, [...before, ...after]);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('taken in the middle of a stream equals the live index after the events behind its watermark', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 40 }),
        fc.array(fc.tuple(fc.boolean(), step), { maxLength: 40 }),
        fc.array(step, { maxLength: 20 }),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        (before, during, after, rowsPerPiece, lossy) => {
          const live = emptyIndex();
          for (const event of before) apply(live, event);
          const pieces = writerOf(live, rowsPerPiece, 7).pieces();
          const bytes: Uint8Array[] = [pieces.next().value ?? new Uint8Array()];
          const heard: Step[] = [];
          for (const [write, event] of during) {
            const piece = write ? pieces.next() : undefined;
            if (piece?.done === false) bytes.push(piece.value);
            if (apply(live, event) || lossy) heard.push(event);
          }
          bytes.push(...pieces);
          for (const event of after) if (apply(live, event) || lossy) heard.push(event);
          const snapshot = readSnapshot(Buffer.concat(bytes));
          const copy = emptyIndex();
          restoreSnapshot(snapshot, copy, hasher, slotOf);
          expect(snapshot.owners.map((owner) => owner.watermark)).toEqual(OWNERS.map(() => 7));
          for (const event of heard) apply(copy, event);
          // Stores that came before their parents are lost on the live index; the copy, which has the parents, takes them.
          if (lossy) expect(rowsOf(copy)).toEqual(expect.arrayContaining(rowsOf(live)));
          else expect(rowsOf(copy)).toEqual(rowsOf(live));
          if (lossy) return;
          const all = [...before, ...during.map(([, event]) => event), ...after];
          expectSameMatches(copy, live, all);
        },
      ),
      { numRuns: 600 },
    );
  });

  it('keeps ids of 64 bits, epochs and marks; an owner cleared meanwhile is void, stale and partial', () => {
    const live = emptyIndex();
    apply(live, { kind: 'store', owner: 0, tier: 'device', chain: [1, 2], from: 0 });
    apply(live, { kind: 'store', owner: 1, tier: 'device', chain: [1, 2], from: 0 });
    const writer = writerOf(live, 1, 2 ** 40);
    const pieces = writer.pieces();
    const bytes = [pieces.next().value ?? new Uint8Array(), pieces.next().value ?? new Uint8Array()];
    apply(live, { kind: 'clear', owner: 0 });
    bytes.push(...pieces);
    const { owners, rows, takenAtMs } = readSnapshot(Buffer.concat(bytes));
    expect(takenAtMs).toBe(1_700_000_000_000);
    expect(rows.count).toBe(writer.rows);
    expect(owners).toEqual([
      { ...ownerOf(0, 2 ** 40), isVoid: true, stale: true, partial: true },
      { ...ownerOf(1, 2 ** 40), isVoid: false },
      { ...ownerOf(5, 2 ** 40), isVoid: false },
    ]);
    expect(rowsOf(restored(Buffer.concat(bytes))).map((row) => row.split(' ')[0])).toEqual(['1', '1']);
  });

  it('leaves out owners nobody asks for, and keeps within the room that an index has', () => {
    const live = emptyIndex();
    for (const owner of [0, 1])
      apply(live, { kind: 'store', owner, tier: 'device', chain: [1, 2, 1], from: 0 });
    const snapshot = readSnapshot(snapshotOf(live));
    const one = emptyIndex();
    expect(restoreSnapshot(snapshot, one, hasher, (number) => (number === 1 ? 1 : null))).toEqual({
      restored: 3,
      left: 0,
    });
    expect(one.stats().holdings).toBe(3);
    const small = createPrefixIndex({ hasher, maxHoldings: 4 });
    restoreSnapshot(snapshot, small, hasher, slotOf);
    const { holdings } = small.stats();
    expect(holdings).toBeGreaterThan(0);
    expect(holdings).toBeLessThanOrEqual(4);
  });

  it('counts as restored what the index has at the end, not what it evicted on the way', () => {
    const live = emptyIndex();
    for (let content = 1; content <= 60; content++) {
      const chain = [content, 1, 2, 1];
      apply(live, { kind: 'store', owner: OWNERS[content % 3]!, tier: 'device', chain, from: 0 });
      apply(live, { kind: 'store', owner: OWNERS[content % 3]!, tier: 'host', chain, from: 1 });
    }
    const snapshot = readSnapshot(snapshotOf(live));
    for (const options of [{ maxHoldings: 100 }, { maxBytes: 60_000 }, { maxBytes: 20_000 }, {}]) {
      const small = createPrefixIndex({ hasher, ...options });
      const { restored, left } = restoreSnapshot(snapshot, small, hasher, slotOf);
      expect(restored).toBe(rowsOf(small).length);
      expect(restored + left).toBe(snapshot.rows.count);
    }
  });

  it('listens to the index only while it is written', () => {
    const live = emptyIndex();
    const writer = writerOf(live, 1);
    expect([...writer.pieces()].length).toBeGreaterThan(0);
    apply(live, { kind: 'store', owner: 0, tier: 'device', chain: [1], from: 0 });
    apply(live, { kind: 'remove', owner: 0, tier: 'device', chain: [1], from: 0 });
    expect(writer.rows).toBe(0);
  });
});

describe('a snapshot that is not whole', () => {
  it('is refused at every length it could be cut to', () => {
    const file = smallFile();
    expect(problem(() => readSnapshot(file))).toBe('none');
    for (let length = 0; length < file.length; length++) {
      expect(problem(() => readSnapshot(file.subarray(0, length)))).toMatch(
        /^PM_SNAPSHOT_UNUSABLE: the snapshot of the prefix index cannot be used: /,
      );
    }
    expect(problem(() => readSnapshot(Buffer.concat([file, Buffer.of(0)])))).toMatch(
      /its checksum does not fit/,
    );
  });

  it('is refused with any byte changed', () => {
    const file = smallFile();
    for (let at = 0; at < file.length; at++) {
      const changed = Buffer.from(file);
      changed[at] = changed[at]! ^ (1 << (at % 8));
      expect(problem(() => readSnapshot(changed))).toMatch(/^PM_SNAPSHOT_UNUSABLE/);
    }
  });

  it('says in words what is wrong with a version, a scheme, sizes and rows of another program', () => {
    const file = smallFile();
    const said = (change: (bytes: Buffer) => void) => problem(() => readSnapshot(forged(file, change)));
    const begin = 'PM_SNAPSHOT_UNUSABLE: the snapshot of the prefix index cannot be used: ';
    expect(said((bytes) => bytes.writeUInt32LE(2, 8))).toBe(
      `${begin}it has version 2, and this program reads version 1`,
    );
    expect(problem(() => readSnapshot(Buffer.from('{}')))).toBe(
      `${begin}it does not begin as a snapshot does (2 bytes)`,
    );
    expect(said((bytes) => bytes.write('xxh4', bytes.indexOf('xxh3-64')))).toBe(
      `${begin}its hashes are of scheme "xxh4-64, seed 1337, chained", and this router's of "xxh3-64, seed 1337, chained"`,
    );
    expect(said((bytes) => bytes.writeUInt32LE(7, bytes.length - 8))).toMatch(/its parts do not add up/);
    expect(said((bytes) => bytes.writeUInt32LE(2 ** 31, 12))).toMatch(/its parts do not add up/);
    expect(said((bytes) => bytes.write('!', 16))).toBe(`${begin}its header is no JSON`);
    expect(said((bytes) => bytes.write('"rink"', bytes.indexOf('"rank"')))).toBe(
      `${begin}the field rank of its header has a wrong value`,
    );
    expect(said((bytes) => bytes.writeUInt8(9, bytes.length - 8 - 1))).toBe(
      `${begin}row 5 names owner 2 of 3 and tier 9`,
    );
    expect(said((bytes) => bytes.writeUInt16LE(9, bytes.length - 8 - 3))).toBe(
      `${begin}row 5 names owner 9 of 3 and tier 1`,
    );
  });

  it('never does worse than being refused, whatever a checksum was made for', () => {
    const file = smallFile();
    const rng = seededRng(7);
    for (let round = 0; round < 3000; round++) {
      const bytes = forged(file, (body) => {
        for (let changes = 1 + rng.integer(4); changes > 0; changes--)
          body[rng.integer(body.length)] = rng.integer(256);
      });
      const said = problem(() => restored(bytes));
      expect(said).toMatch(/^(none|PM_SNAPSHOT_UNUSABLE: )/);
    }
  });
});

function expectSameMatches(copy: CopyableIndex, live: CopyableIndex, events: readonly Step[]): void {
  for (const event of events) {
    if (event.kind === 'clear') continue;
    const sequence = sequencesOf(event.chain);
    const local = localsOf(event.chain);
    const matches = [copy, live].map((index) => {
      const { count, owners, depthPerTier } = index.find(local, sequence, TIERS);
      return [[...owners.subarray(0, count)], depthPerTier.map((depth) => [...depth.subarray(0, count)])];
    });
    expect(matches[0]).toEqual(matches[1]);
    const names = [copy, live].map((index) => {
      const out = new BigUint64Array(event.chain.length);
      const count = index.externalHashes(event.owner, sequence, 0, event.chain.length, out);
      return [...out.subarray(0, count)];
    });
    expect(names[0]).toEqual(names[1]);
  }
}

it('owners name blocks in their own hashes', () => {
  expect(namesOf(1, [1, 2])).not.toEqual(namesOf(0, [1, 2]));
});
