/* Native yardstick of bench/hashing.ts: XXH3-64 of each block (64, 128 or 256 bytes) and the chain over them, seed 1337.
   Usage: hashing-native TOKENS BLOCK_TOKENS SAMPLES. Tokens are i * 2654435761 mod 2^32.
   Prints: median ns per block for block + chain, for block alone, and the last sequence hash in hex.
   Algorithm: xxHash specification, github.com/Cyan4973/xxHash (BSD-2-Clause). */
#define _POSIX_C_SOURCE 199309L
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t SECRET[24] = {
    0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u, 0x78e5c0cc4ee679cbu,
    0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u, 0xcb00c391bb52283cu, 0xa32e531b8b65d088u,
    0x4ef90da297486471u, 0xd8acdea946ef1938u, 0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au,
    0x647378d9c97e9fc8u, 0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u,
    0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu};
static uint64_t seeded[24];

static const uint64_t SEED = 1337;
static const uint64_t PRIME64_1 = 0x9e3779b185ebca87u;

static uint64_t read64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

static uint64_t fold(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t avalanche(uint64_t h) {
  h ^= h >> 37;
  h *= 0x165667919e3779f9u;
  return h ^ (h >> 32);
}

static uint64_t mix(const uint8_t *p, int key) {
  return fold(read64(p) ^ seeded[key], read64(p + 8) ^ seeded[key + 1]);
}

static inline uint64_t hash_short(const uint8_t *p, int length) {
  uint64_t h = (uint64_t)length * PRIME64_1;
  for (int i = 0; i < length / 32; i++) {
    h += mix(p + 16 * i, 4 * i) + mix(p + length - 16 * (i + 1), 4 * i + 2);
  }
  return avalanche(h);
}

static void accumulate(uint64_t *acc, const uint8_t *p, const uint8_t *key) {
  for (int i = 0; i < 8; i++) {
    uint64_t data = read64(p + 8 * i);
    uint64_t keyed = data ^ read64(key + 8 * i);
    acc[i ^ 1] += data;
    acc[i] += (keyed & 0xffffffffu) * (keyed >> 32);
  }
}

/* 241 to 1024 bytes in whole stripes: no scramble is due. */
static inline uint64_t hash_long(const uint8_t *p, int length) {
  uint64_t acc[8] = {0xc2b2ae3du,         PRIME64_1,   0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                     0x85ebca77c2b2ae63u, 0x85ebca77u, 0x27d4eb2f165667c5u, 0x9e3779b1u};
  const uint8_t *secret = (const uint8_t *)seeded;
  for (int i = 0; i < (length - 1) / 64; i++) accumulate(acc, p + 64 * i, secret + 8 * i);
  accumulate(acc, p + length - 64, secret + 121);
  uint64_t h = (uint64_t)length * PRIME64_1;
  for (int i = 0; i < 8; i += 2) {
    h += fold(acc[i] ^ read64(secret + 11 + 8 * i), acc[i + 1] ^ read64(secret + 19 + 8 * i));
  }
  return avalanche(h);
}

static uint64_t chain_step(uint64_t parent, uint64_t own) {
  uint64_t lo = parent ^ ((SECRET[3] ^ SECRET[4]) + SEED);
  uint64_t hi = own ^ ((SECRET[5] ^ SECRET[6]) - SEED);
  return avalanche(16 + __builtin_bswap64(lo) + hi + fold(lo, hi));
}

static inline void hash_prompt(const uint8_t *p, int blocks, int bytes, uint64_t *local, uint64_t *sequence) {
  uint64_t hash = 0;
  for (int i = 0; i < blocks; i++) {
    uint64_t own = bytes <= 128 ? hash_short(p + (size_t)i * bytes, bytes) : hash_long(p + (size_t)i * bytes, bytes);
    local[i] = own;
    if (sequence == NULL) continue;
    hash = i == 0 ? own : chain_step(hash, own);
    sequence[i] = hash;
  }
}

/* The length as a constant lets the compiler unroll, as a library's dispatch on a fixed block size would. */
static void run(const uint8_t *p, int blocks, int bytes, uint64_t *local, uint64_t *sequence) {
  if (bytes == 64) hash_prompt(p, blocks, 64, local, sequence);
  else if (bytes == 128) hash_prompt(p, blocks, 128, local, sequence);
  else hash_prompt(p, blocks, 256, local, sequence);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_ns(const uint8_t *p, int blocks, int bytes, uint64_t *local, uint64_t *sequence, int samples) {
  double *taken = malloc(sizeof(double) * (size_t)samples);
  int repeats = 20000 / blocks + 1;
  for (int s = 0; s < samples; s++) {
    double start = now_ns();
    for (int r = 0; r < repeats; r++) {
      run(p, blocks, bytes, local, sequence);
      __asm__ volatile("" ::: "memory");
    }
    taken[s] = (now_ns() - start) / repeats / blocks;
  }
  qsort(taken, (size_t)samples, sizeof(double), ascending);
  double median = taken[samples / 2];
  free(taken);
  return median;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int tokens = atoi(argv[1]), block = atoi(argv[2]), samples = atoi(argv[3]);
  int bytes = 4 * block, blocks = tokens / block;
  if ((bytes != 64 && bytes != 128 && bytes != 256) || blocks < 1 || samples < 1) return 2;
  for (int i = 0; i < 24; i += 2) {
    seeded[i] = SECRET[i] + SEED;
    seeded[i + 1] = SECRET[i + 1] - SEED;
  }
  uint32_t *input = malloc(4 * (size_t)tokens);
  uint64_t *local = malloc(8 * (size_t)blocks), *sequence = malloc(8 * (size_t)blocks);
  for (int i = 0; i < tokens; i++) input[i] = (uint32_t)i * 2654435761u;
  double chained = median_ns((const uint8_t *)input, blocks, bytes, local, sequence, samples);
  double alone = median_ns((const uint8_t *)input, blocks, bytes, local, NULL, samples);
  printf("%.3f %.3f %016" PRIx64 "\n", chained, alone, sequence[blocks - 1]);
  return 0;
}
