// The default cost over plain arrays, as a router written in Rust would have it first: a mask of who is eligible, the lowest cost,
// ties drawn by reservoir. Standard library only. Arguments: workers, samples. Prints nanoseconds per decision (median) and the
// chosen row of the fixture in bench/selection-fixture.ts.
use std::hint::black_box;
use std::time::Instant;

struct Candidates {
    eligible: Vec<bool>,
    cached_tokens: Vec<f64>,
    overlap_blocks: Vec<f64>,
    prefill_tokens: Vec<f64>,
    decode_blocks: Vec<f64>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn fixture(workers: usize) -> Candidates {
    let column = |value: fn(usize) -> usize| (0..workers).map(|i| value(i) as f64).collect::<Vec<f64>>();
    Candidates {
        eligible: vec![true; workers],
        cached_tokens: column(|i| i % 32 * 64),
        overlap_blocks: column(|i| i % 32 * 4),
        prefill_tokens: column(|i| 16 * i),
        decode_blocks: column(|i| i % 127),
    }
}

#[inline(never)]
fn select(from: &Candidates, prompt: f64, block_size: f64, credit: f64, scale: f64, random: &mut Random) -> usize {
    let count = from.eligible.len();
    let (cached, overlap) = (&from.cached_tokens[..count], &from.overlap_blocks[..count]);
    let (prefill, decode) = (&from.prefill_tokens[..count], &from.decode_blocks[..count]);
    let (mut lowest, mut chosen, mut ties) = (f64::INFINITY, usize::MAX, 0);
    for row in 0..count {
        if !from.eligible[row] {
            continue;
        }
        let tokens = prefill[row] + prompt.max(cached[row]);
        let cost = scale * (tokens / block_size - credit * overlap[row]).max(0.0) + decode[row];
        if cost < lowest {
            lowest = cost;
            chosen = row;
            ties = 1;
        } else if cost == lowest {
            ties += 1;
            if random.below(ties) == 0 {
                chosen = row;
            }
        }
    }
    chosen
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let workers = numbers.next().expect("workers");
    let samples = numbers.next().expect("samples");
    let candidates = fixture(workers);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut decide = || {
        let (prompt, block_size) = (black_box(2048.0), black_box(16.0));
        select(black_box(&candidates), prompt, block_size, black_box(1.0), black_box(1.0), &mut random)
    };
    // About a quarter of a millisecond, as the other samples are.
    let repeats = (250_000 / (2 * workers + 5)).max(1);
    let mut times: Vec<f64> = (0..samples)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..repeats {
                black_box(decide());
            }
            start.elapsed().as_nanos() as f64 / repeats as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{} {}", times[times.len() / 2], decide());
}
