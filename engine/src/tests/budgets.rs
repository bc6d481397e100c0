//! Bytes per key against the budgets of the design, by the partition's own accounting.

use super::*;
use crate::Changed;

/// Loads `count` keys of 10 bytes and checks the growth of used memory per key.
fn check(what: &str, count: usize, budget: f64, store: impl Fn(&mut Partition, &[u8])) {
    let mut partition = partition();
    let empty = partition.memory().used;
    for number in 0..count {
        store(&mut partition, format!("key:{number:06}").as_bytes());
    }
    let bytes = (partition.memory().used - empty) as f64 / count as f64;
    println!("{what:24} {bytes:8.2} of {budget}");
    assert!(bytes <= budget, "{what}: {bytes:.2} bytes a key, budget {budget}");
}

#[test]
#[cfg_attr(miri, ignore = "a hundred thousand keys take Miri hours")]
fn keys_stay_within_their_budgets() {
    let value = [b'x'; 1024];
    check("string of 16", 100_000, 42.0, |p, key| set(p, key, &value[..16]));
    check("string of 16 with time", 100_000, 53.0, |p, key| {
        set_until(p, key, &value[..16], NOW_MS + 3_600_000);
    });
    check("string of 128", 20_000, 154.0, |p, key| set(p, key, &value[..128]));
    check("string of 1024", 20_000, 1090.0, |p, key| set(p, key, &value));
    check("counter", 100_000, 27.0, |p, key| {
        let key = p.key(key);
        p.incr_by(0, &key, 7).unwrap();
    });
    check("bitmap of 128", 20_000, 158.0, |p, key| {
        let key = p.key(key);
        for bit in [5, 1023] {
            p.string_mut(0, &key, bit / 8 + 1, |bytes| {
                bytes[bit / 8] |= 1;
                ((), Changed::Bit { offset: bit as u64, on: true })
            })
            .unwrap();
        }
    });
    check("bitfield of 2", 100_000, 28.0, |p, key| {
        let key = p.key(key);
        p.string_mut(0, &key, 2, |bytes| (bytes[1] = 9, Changed::Range(0..2))).unwrap();
    });
}

#[test]
#[cfg_attr(miri, ignore = "a hundred thousand keys take Miri hours")]
fn random_times_cost_little_more() {
    let rng = std::cell::RefCell::new(crate::testing::Rng::new(2));
    check("string of 16, any time", 100_000, 53.0, |p, key| {
        let at_ms = NOW_MS + 1000 + rng.borrow_mut().below(100_000_000);
        set_until(p, key, &[b'x'; 16], at_ms);
    });
}
