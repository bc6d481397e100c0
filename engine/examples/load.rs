//! Embeds the engine: loads keys, prints bytes a key and nanoseconds an operation.
//!
//! `cargo run --release -p engine --example load [keys] [value bytes] [hot times]`

#![allow(clippy::print_stdout, reason = "a measuring program prints")]

use engine::{Options, Partition, SetExpire, SetOptions};

const NOW_MS: u64 = 1_764_550_000_000;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().ok());
    let keys = numbers.next().flatten().unwrap_or(1_000_000);
    let value_len = numbers.next().flatten().unwrap_or(16);
    let mut partition = Partition::new(&Options::default(), NOW_MS).expect("address space");
    let value = vec![b'x'; value_len];
    let hot = numbers.next().flatten().unwrap_or(5_000_000);
    println!("{keys} keys of 10 bytes, values of {value_len}");

    let load = |partition: &mut Partition, options: SetOptions| {
        for number in 0..keys {
            let name = format_key(number);
            let key = partition.key(&name);
            partition.set(0, &key, &value, options).expect("memory");
        }
    };
    timed("set of new keys", keys, || load(&mut partition, SetOptions::default()));
    report(&partition, keys);
    timed("set of old keys, in order", keys, || load(&mut partition, SetOptions::default()));
    random_reads(&mut partition, keys, 1);
    random_reads(&mut partition, keys, 64);
    hot_key(&mut partition, &value, hot);
    let expire = SetExpire::At(NOW_MS + 100_000);
    timed("set with one time", keys, || {
        load(&mut partition, SetOptions { expire, ..SetOptions::default() });
    });
    report(&partition, keys);
    timed("expire all", keys, || {
        partition.set_now(NOW_MS + 200_000);
        while partition.maintain(&mut || true).work_left {}
    });
    report(&partition, keys);
}

fn format_key(number: usize) -> [u8; 10] {
    let mut name = *b"k000000000";
    let mut rest = number;
    for digit in name[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn random_reads(partition: &mut Partition, keys: usize, batch: usize) {
    let mut state = 88_172_645_463_325_252u64;
    let mut found = 0;
    timed(&format!("get at random, {batch} prefetched"), keys, || {
        for _ in 0..keys / batch {
            let names: Vec<[u8; 10]> = (0..batch)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    format_key((state % keys as u64) as usize)
                })
                .collect();
            let named: Vec<_> = names.iter().map(|name| partition.key(name)).collect();
            if batch > 1 {
                named.iter().for_each(|key| partition.prefetch_bucket(0, key));
                named.iter().for_each(|key| partition.prefetch_block(0, key));
            }
            for key in &named {
                found += usize::from(partition.get(0, key).expect("a string").is_some());
            }
        }
    });
    assert_eq!(found, keys / batch * batch);
}

fn hot_key(partition: &mut Partition, value: &[u8], times: usize) {
    let name = format_key(1);
    let key = partition.key(&name);
    timed("get of a hot key", times, || {
        for _ in 0..times {
            std::hint::black_box(partition.get(0, &key).expect("a string"));
        }
    });
    timed("set of a hot key", times, || {
        for _ in 0..times {
            partition.set(0, &key, value, SetOptions::default()).expect("memory");
        }
    });
    let name = b"counter";
    let key = partition.key(name);
    timed("incr of a hot key", times, || {
        for _ in 0..times {
            partition.incr_by(0, &key, 1).expect("an integer");
        }
    });
}

fn timed(what: &str, count: usize, work: impl FnOnce()) {
    let start = cpu_ns();
    work();
    println!("  {what:32} {:8.1} ns each", (cpu_ns() - start) / count as f64);
}

/// Nanoseconds that this thread has run, so that busy neighbours count less.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

fn report(partition: &Partition, keys: usize) {
    let memory = partition.memory();
    let each = |bytes: usize| bytes as f64 / keys as f64;
    println!(
        "  bytes a key: {:.2} used = {:.2} blocks + {:.2} index + {:.2} expire; {:.2} committed",
        each(memory.used),
        each(memory.blocks),
        each(memory.index),
        each(memory.expire),
        each(memory.committed),
    );
}
