//! Embeds the engine at scale: memory that comes back, and the longest single call.
//!
//! `cargo run --release -p engine --example scale [keys]`
//!
//! Prints resident bytes a live key after loading, after deleting 90 % at random and after churn;
//! and the longest call of growth, FLUSHALL and upkeep steps, less the time that the kernel let the
//! thread wait.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measuring program reads the clock and prints"
)]

use engine::{DeleteCause, Options, Partition, SetExpire, SetOptions};
use std::time::Instant;

const NOW_MS: u64 = 1_764_550_000_000;

fn main() {
    let keys = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    deletion(keys);
    churn(keys);
    growth_and_flush(5 * keys);
    due_among_many(keys);
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Measures single calls.
struct Longest {
    us: f64,
    calls: u64,
    waited_ns: u64,
    /// Calls of more than 200 us, and of more than 1 ms.
    long: [u64; 2],
}

impl Longest {
    fn new() -> Longest {
        Longest { us: 0.0, calls: 0, waited_ns: schedstat(1), long: [0; 2] }
    }

    fn call<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let answer = work();
        let ns = start.elapsed().as_nanos() as u64;
        self.calls += 1;
        if ns > 50_000 {
            let waited = schedstat(1);
            let waited_here = (waited - self.waited_ns).min(ns);
            self.waited_ns = waited;
            let us = (ns - waited_here) as f64 / 1000.0;
            self.us = self.us.max(us);
            self.long[0] += u64::from(us > 200.0);
            self.long[1] += u64::from(us > 1000.0);
        }
        answer
    }

    fn print(&self, what: &str) {
        let [above_200_us, above_1_ms] = self.long;
        println!(
            "  {what}: longest of {} calls {:.0} us; {above_200_us} above 200 us, {above_1_ms} above 1 ms",
            self.calls, self.us
        );
    }
}

/// A field of this thread's scheduler statistics: 0 time run, 1 time waited, in nanoseconds.
fn schedstat(field: usize) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').nth(field).and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or_default();
    pages as f64 * 4096.0
}

fn new() -> Partition {
    Partition::new(&Options::default(), NOW_MS).expect("address space")
}

/// Upkeep in ticks with a budget of 1 ms, as a server gives it; the longest step by itself.
fn upkeep(partition: &mut Partition, longest: &mut Longest) {
    loop {
        // One step a call: the budget is asked before each.
        let mut steps = 0;
        let left = longest.call(|| {
            partition.maintain(&mut || {
                steps += 1;
                steps < 2
            })
        });
        if !left.work_left {
            return;
        }
    }
}

fn deletion(keys: u64) {
    let base = resident_bytes();
    let mut partition = new();
    for number in 0..keys {
        set(&mut partition, number, &[b'x'; 64], None);
    }
    let full = (resident_bytes() - base) / keys as f64;
    let (mut dice, mut left) = (Dice(7), 0);
    for number in 0..keys {
        if dice.below(10) == 0 {
            left += 1;
        } else {
            let name = format!("key:{number:08}");
            let key = partition.key(name.as_bytes());
            partition.delete(0, &key, DeleteCause::Command);
        }
    }
    let (mut longest, start) = (Longest::new(), schedstat(0));
    upkeep(&mut partition, &mut longest);
    let ms = (schedstat(0) - start) as f64 / 1e6;
    let sparse = (resident_bytes() - base) / left as f64;
    println!("90 % of {keys} deleted: {full:.1} bytes a key before, {sparse:.1} after");
    println!("  {:.2} times, in {ms:.0} ms of upkeep", sparse / full);
    longest.print("upkeep");
}

fn churn(keys: u64) {
    let base = resident_bytes();
    let mut partition = new();
    let mut sizes = vec![0u8; keys as usize];
    let (mut dice, value) = (Dice(9), [b'v'; 200]);
    let mut longest = Longest::new();
    for round in 0..10 * keys {
        let number = dice.below(keys);
        if dice.below(10) < 3 {
            let name = format!("key:{number:08}");
            let key = partition.key(name.as_bytes());
            partition.delete(0, &key, DeleteCause::Command);
            sizes[number as usize] = 0;
        } else {
            let len = 1 + dice.below(200);
            set(&mut partition, number, &value[..len as usize], None);
            sizes[number as usize] = len as u8;
        }
        if round % 1000 == 0 {
            let mut steps = 0;
            longest.call(|| {
                partition.maintain(&mut || {
                    steps += 1;
                    steps < 20
                })
            });
        }
    }
    upkeep(&mut partition, &mut longest);
    let live = sizes.iter().filter(|&&size| size > 0).count();
    let payload: usize = sizes.iter().map(|&size| size as usize).sum::<usize>() + live * 12;
    let resident = resident_bytes() - base - keys as f64;
    let memory = partition.memory();
    println!("churn of {keys} keys: resident {:.3} times the payload", resident / payload as f64);
    println!(
        "  used {:.3}, committed {:.3}",
        memory.used as f64 / payload as f64,
        memory.committed as f64 / payload as f64
    );
    longest.print("20 steps of upkeep");
}

fn growth_and_flush(keys: u64) {
    let mut partition = new();
    let mut longest = Longest::new();
    for number in 0..keys {
        longest.call(|| set(&mut partition, number, &[b'x'; 16], None));
    }
    println!("growth to {keys} keys and flush");
    longest.print("set");
    let mut longest = Longest::new();
    longest.call(|| partition.flush_all());
    longest.print("flush_all");
    let (mut longest, start) = (Longest::new(), schedstat(0));
    upkeep(&mut partition, &mut longest);
    println!("  freed in {:.0} ms", (schedstat(0) - start) as f64 / 1e6);
    longest.print("upkeep");
    let mut partition = new();
    let key = partition.key(b"huge");
    partition
        .string_mut(0, &key, 512 << 20, |bytes| {
            bytes.fill(1);
            ((), engine::Changed::Range(0..1))
        })
        .expect("memory");
    let mut longest = Longest::new();
    longest.call(|| partition.delete(0, &key, DeleteCause::Command));
    longest.print("delete of 512 MiB");
    upkeep(&mut partition, &mut longest);
    longest.print("its upkeep");
}

fn due_among_many(keys: u64) {
    let mut partition = new();
    let mut dice = Dice(3);
    let mut longest = Longest::new();
    for number in 0..keys {
        let at_ms = NOW_MS + 1000 + dice.below(10_000_000);
        longest.call(|| set(&mut partition, number, &[b'x'; 16], Some(at_ms)));
    }
    println!("{keys} keys with random times: {:?}", partition.memory());
    longest.print("set with time");
    let (mut longest, start, before) = (Longest::new(), schedstat(0), partition.len(0));
    for tick in 0..1000 {
        partition.set_now(NOW_MS + 1000 + tick * 1000);
        upkeep(&mut partition, &mut longest);
    }
    let expired = before - partition.len(0);
    let ns = (schedstat(0) - start) as f64 / expired as f64;
    println!("  {expired} expired, {ns:.0} ns each");
    longest.print("step");
}

fn set(partition: &mut Partition, number: u64, value: &[u8], at_ms: Option<u64>) {
    let name = format!("key:{number:08}");
    let key = partition.key(name.as_bytes());
    let expire = at_ms.map_or(SetExpire::Clear, SetExpire::At);
    partition.set(0, &key, value, SetOptions { expire, ..SetOptions::default() }).expect("memory");
}
