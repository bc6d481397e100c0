//! Micro-benchmarks of what every request passes: parser, slab, index, and the engine's string
//! operations on top of them.
//!
//! `cargo bench -p benchmark` measures; `cargo test` runs each once. Each checks its answers.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine::arena::{Arena, ArenaOptions};
use engine::slab::Slabs;
use engine::table::Table;
use engine::{Options, Partition, SetOptions};
use server::resp::parse::{self, Limits, Progress, Step};

use benchmark::numbers::Random;
use benchmark::template::{self, Batch};

/// Wall clock of the engine, which takes it as an argument.
const NOW_MS: u64 = 1_764_550_000_000;

/// Entries of the index: more than the caches hold.
const ENTRIES: u64 = 1_000_000;

/// Reads a whole buffer of requests; how many there were.
fn parse_all(input: &[u8], args: &mut Vec<parse::ArgRange>) -> usize {
    let limits = Limits { bulk_max: 512 << 20, authenticated: true };
    let mut progress = Progress::default();
    let mut at = 0;
    let mut requests = 0;
    loop {
        args.clear();
        match parse::next(input, &mut at, &mut progress, args, &limits) {
            Ok(Step::Request) => requests += 1,
            Ok(Step::NeedMore) => return requests,
            other => panic!("the input is whole requests: {other:?}"),
        }
    }
}

fn parser(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parser");
    let commands = [
        ("get", "GET key:__rand__"),
        ("set 64 B", "SET key:__rand__ __value__"),
        ("mset 10", "MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10"),
    ];
    for (name, command) in commands {
        let batch = Batch::new(&template::words(command, 64), 64);
        let mut args = Vec::new();
        assert_eq!(parse_all(&batch.bytes, &mut args), 64);
        group.throughput(Throughput::Elements(64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| parse_all(black_box(&batch.bytes), &mut args));
        });
    }
    group.finish();
}

fn slabs() -> Slabs {
    Slabs::new(Arena::new(ArenaOptions::default()).expect("address space"))
}

fn slab(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slab");
    for len in [40, 150, 1048] {
        group.bench_function(format!("alloc and free {len} B"), |bencher| {
            let mut slabs = slabs();
            // One that stays, so that the span does not come and go.
            let kept = slabs.alloc(len).expect("memory");
            bencher.iter(|| {
                let block = slabs.alloc(black_box(len)).expect("memory");
                slabs.free(block);
            });
            assert!(slabs.block_bytes(kept) >= len);
        });
    }
    group.finish();
}

/// Spreads a number over all bits, in place of the engine's keyed hash.
fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn number_in(block: &[u8]) -> u64 {
    u64::from_le_bytes(block[..8].try_into().expect("a block holds a number"))
}

fn index(criterion: &mut Criterion) {
    let mut slabs = slabs();
    let mut table = Table::new();
    let hash_of = |block: &[u8]| hash(number_in(block));
    for number in 0..ENTRIES {
        let block = slabs.alloc(16).expect("memory");
        slabs.block_mut(block)[..8].copy_from_slice(&number.to_le_bytes());
        table.insert(&mut slabs, hash(number), block, &hash_of).expect("memory");
    }
    assert_eq!(table.len(), ENTRIES as usize);
    let mut group = criterion.benchmark_group("index of a million");
    let mut random = Random::new(1);
    let mut find = |limit: u64| {
        let number = random.below(limit);
        table.find(&slabs, hash(number), |block| number_in(block) == number)
    };
    assert!(find(ENTRIES).is_some());
    group.bench_function("find, one of 1,000", |bencher| bencher.iter(|| find(1000)));
    group.bench_function("find, one of all", |bencher| bencher.iter(|| find(ENTRIES)));
    let mut random = Random::new(2);
    group.bench_function("find, absent", |bencher| {
        bencher.iter(|| {
            let number = ENTRIES + random.below(ENTRIES);
            table.find(&slabs, hash(number), |block| number_in(block) == number)
        });
    });
    group.finish();
}

fn strings(criterion: &mut Criterion) {
    let mut partition = Partition::new(&Options::default(), NOW_MS).expect("address space");
    let value = template::value(64).into_bytes();
    let names: Vec<String> = (0..1000).map(|number| format!("key:{number:06}")).collect();
    for name in &names {
        let key = partition.key(name.as_bytes());
        partition.set(0, &key, &value, SetOptions::default()).expect("memory");
    }
    let mut group = criterion.benchmark_group("strings, a thousand keys");
    let mut random = Random::new(3);
    let mut pick = || names[random.below(1000) as usize].as_bytes();
    group.bench_function("get", |bencher| {
        bencher.iter_batched(
            &mut pick,
            |name| {
                let key = partition.key(name);
                assert!(partition.get(0, &key).expect("a string").is_some());
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("set", |bencher| {
        bencher.iter_batched(
            &mut pick,
            |name| {
                let key = partition.key(name);
                partition.set(0, &key, &value, SetOptions::default()).expect("memory");
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
    assert_eq!(partition.len(0), names.len());
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).without_plots();
    targets = parser, slab, index, strings
}
criterion_main!(benches);
