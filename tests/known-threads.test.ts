// Threads in which users of other engines and routers met faults of KV events, hashes, tokens and parity, each with the test that holds
// this router to the right behaviour or the right words. A thread without a test, or a test that does not exist, fails here.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, test } from 'vitest';

const FAULTS = 'src/events/known-faults.test.ts';
const STREAM = 'src/events/sequenced-stream.test.ts';
const MONITOR = 'src/parity/parity-monitor.test.ts';
const DOCTOR = 'tests/doctor-faults.test.ts';
const LIVE = 'tests/parity-live.test.ts';

/** What breaks in practice, by subject: the subjects and threads that this router answers. */
const SUBJECTS: Readonly<Record<string, readonly string[]>> = {
  'random hash seed': ['vllm#51875', 'llm-d#1290', 'vllm#47636'],
  'unstable engine ids': ['dyn#2981', 'dyn#2924'],
  'wrong parent chain': [
    'dyn#659',
    'dyn#671',
    'dyn#693',
    'vllm-ascend#12002',
    'vllm-ascend#12012',
    'vllm-ascend#15428',
  ],
  'missing parent': ['llm-d-kv-cache#663', 'llm-d-kv-cache#372', 'dyn#14314'],
  'hybrid groups': ['dyn#8751', 'vllm#40984', 'smg#1652', 'trt#5580'],
  'block sizes': ['vllm#43258', 'vllm#51614', 'vllm#44451', 'Infera#73'],
  'pages below blocks': ['llm-d-router#2153', 'llm-d-router#2235'],
  salts: ['sgl#24568', 'sgl#24579', 'dyn#8197'],
  adapters: ['llm-d-kv-cache#189', 'trt#18156', 'trt#18160'],
  multimodal: ['vllm#28465', 'dyn#4577', 'dyn#11588'],
  'no events although enabled': ['dyn#11984', 'aibrix#1721', 'production-stack#1062'],
  'schema drift': ['aibrix#1559', 'aibrix#1720'],
  'event loss': [
    'dyn#7209',
    'dyn#14167',
    'llm-d-router#1737',
    'llm-d-router#1887',
    'sgl#32728',
    'vllm#45174',
    'sgl#39750',
    'Mooncake#4159',
  ],
  'memory growth': ['dyn#10774', 'dyn#11678', 'dyn#14878', 'dyn#11785', 'dyn#4429'],
  accounting: ['dyn#7800', 'dyn#8473'],
  ranks: ['dyn#10977', 'dyn#5190', 'dyn#3597'],
  'tier events': ['sgl#38486', 'sgl#29709', 'sgl#29948'],
  'event volume': ['sgl#29265', 'dyn#10836'],
  'identity collapse': ['aibrix#2329', 'aibrix#2330', 'aibrix#1131'],
  'dump precision': ['dyn /dump'],
  'tokens and templates': ['sgl#27386', 'llm-d-router#2389'],
  'why a choice was made': ['dyn#392', 'vllm-router#244'],
};

/** Test of each thread: file, and a part of the title that is its own. */
const TESTS: Readonly<Record<string, readonly [string, string]>> = {
  'vllm#51875': [MONITOR, 'a hash seed per process is named by the engine that is alone with it'],
  'llm-d#1290': [FAULTS, 'engines with hashes of their own each share one index'],
  'vllm#47636': [MONITOR, 'vllm#47636'],
  'dyn#2981': [FAULTS, 'dyn#2981'],
  'dyn#2924': [FAULTS, 'a hash that comes to stand for other tokens changes nothing that is there'],
  'dyn#659': [FAULTS, 'blocks hang on the parent that the event names, none on a guess'],
  'dyn#671': [MONITOR, 'a match that sticks at the first block is told as wrong parents'],
  'dyn#693': [FAULTS, 'blocks hang on the parent that the event names, none on a guess'],
  'vllm-ascend#12002': [MONITOR, 'vllm-ascend#12002'],
  'vllm-ascend#12012': [MONITOR, 'a match that sticks at the first block is told as wrong parents'],
  'vllm-ascend#15428': [FAULTS, 'blocks hang on the parent that the event names, none on a guess'],
  'llm-d-kv-cache#663': [FAULTS, 'llm-d-kv-cache#663'],
  'llm-d-kv-cache#372': [
    'src/events/orphans.test.ts',
    'is indexed with those behind it when the parent comes',
  ],
  'dyn#14314': [FAULTS, 'dyn#14314'],
  'dyn#8751': [MONITOR, 'dyn#8751'],
  'vllm#40984': ['src/events/event-filter.test.ts', 'learns from stores what a group is'],
  'smg#1652': [FAULTS, 'smg#1652'],
  'trt#5580': [FAULTS, 'a block that only a window’s group holds is not held'],
  'vllm#43258': [FAULTS, 'vllm#43258'],
  'vllm#51614': [MONITOR, 'vllm#51614'],
  'vllm#44451': [FAULTS, 'vllm#44451'],
  'Infera#73': [MONITOR, 'Infera#73'],
  'llm-d-router#2153': [MONITOR, 'llm-d-router#2153'],
  'llm-d-router#2235': ['src/events/pages.test.ts', 'become blocks, whether told one by one or many at once'],
  'sgl#24568': [MONITOR, 'sgl#24568'],
  'sgl#24579': [FAULTS, 'one hash under two salts gives nobody another’s blocks'],
  'dyn#8197': [FAULTS, 'dyn#8197'],
  'llm-d-kv-cache#189': [MONITOR, 'llm-d-kv-cache#189'],
  'trt#18156': [FAULTS, 'trt#18156'],
  'trt#18160': [FAULTS, 'both sides seed adapter and salt by one formula'],
  'vllm#28465': [FAULTS, 'vllm#28465'],
  'dyn#4577': [FAULTS, 'dyn#4577'],
  'dyn#11588': ['src/kv/hashing/hash-blocks.test.ts', 'gives the published hashes of blocks with items'],
  'dyn#11984': [MONITOR, 'dyn#11984'],
  'aibrix#1721': [MONITOR, 'aibrix#1721'],
  'production-stack#1062': [DOCTOR, 'names each of the 15 faults at its worker and nothing else'],
  'aibrix#1559': [FAULTS, 'aibrix#1559'],
  'aibrix#1720': ['src/events/decode-batch.test.ts', 'reads a store in array events'],
  'dyn#7209': [STREAM, 'asks for a gap from the last known batch on'],
  'dyn#14167': ['tests/event-bursts.test.ts', 'dyn#14167'],
  'llm-d-router#1737': [MONITOR, 'llm-d-router#1737'],
  'llm-d-router#1887': [STREAM, 'goes on over gaps, stale, where nobody can be asked'],
  'sgl#32728': ['tests/lossy-wires.test.ts', 'with replay every worker comes to exact'],
  'vllm#45174': ['src/events/zmq-replay.test.ts', 'passes over what is no answer, and says so'],
  'sgl#39750': ['tests/snapshot.test.ts', 'killed under load, it routes as before with its snapshot'],
  'Mooncake#4159': [STREAM, 'applies live batches only after what they follow'],
  'dyn#10774': [FAULTS, 'dyn#10774'],
  'dyn#11678': [FAULTS, 'is given back as blocks of'],
  'dyn#14878': [FAULTS, '#14878'],
  'dyn#11785': [FAULTS, '#11785'],
  'dyn#4429': [FAULTS, 'dyn#4429'],
  'dyn#7800': [MONITOR, 'dyn#7800'],
  'dyn#8473': [FAULTS, 'duplicates are counted as such and held once'],
  'dyn#10977': [FAULTS, 'dyn#10977'],
  'dyn#5190': ['src/events/rank-endpoint.test.ts', 'an address that cannot be counted on has no other ranks'],
  'dyn#3597': [FAULTS, 'dyn#3597'],
  'sgl#38486': [FAULTS, 'sgl#38486'],
  'sgl#29709': [FAULTS, 'a block told on a lower tier alone is found there'],
  'sgl#29948': [FAULTS, 'a block told on a lower tier alone is found there'],
  'sgl#29265': [FAULTS, 'sgl#29265'],
  'dyn#10836': [FAULTS, 'dyn#10836'],
  'aibrix#2329': [FAULTS, 'aibrix#2329'],
  'aibrix#2330': [FAULTS, 'chains of one length with the same last block are told apart'],
  'aibrix#1131': [FAULTS, 'aibrix#1131'],
  'dyn /dump': [FAULTS, 'dyn /dump'],
  'sgl#27386': [MONITOR, 'sgl#27386'],
  'llm-d-router#2389': [MONITOR, 'llm-d-router#2389'],
  'dyn#392': [MONITOR, 'dyn#392'],
  'vllm-router#244': [LIVE, 'flags each of the 15 faults within 100 requests'],
};

const ROOT = new URL('../', import.meta.url);
const titles = new Map<string, string[]>();

/** Titles of the tests of a file, as they are written. */
function titlesOf(file: string): readonly string[] {
  let found = titles.get(file);
  if (found === undefined) {
    const text = readFileSync(fileURLToPath(new URL(file, ROOT)), 'utf8');
    found = [...text.matchAll(/\b(?:it|test)(?:\.\w+\([\s\S]*?\))?\(\s*(['"`])([\s\S]*?)\1,/g)].map(
      (match) => match[2] ?? '',
    );
    titles.set(file, found);
  }
  return found;
}

describe('every known thread', () => {
  test('has a test, and no test is of a thread that nobody lists', () => {
    const listed = Object.values(SUBJECTS).flat();
    expect(new Set(listed).size).toBe(listed.length);
    expect(Object.keys(TESTS).sort()).toEqual([...listed].sort());
  });

  it.each(Object.entries(TESTS))('%s', (_thread, [file, title]) => {
    expect(titlesOf(file).filter((one) => one.includes(title))).toHaveLength(1);
  });
});
