//! Elements of every kind come back, in both forms, and broken ones are refused.

use super::*;

fn samples() -> Vec<Vec<u8>> {
    let mut samples: Vec<Vec<u8>> = Vec::new();
    for bits in 0..64 {
        for value in [(1i64 << bits).wrapping_sub(1), 1i64 << bits, -(1i64 << (bits % 63))] {
            samples.push(value.to_string().into_bytes());
            samples.push((value.wrapping_sub(1)).to_string().into_bytes());
        }
    }
    for len in [0, 1, 2, 62, 63, 64, 65, 125, 126, 127, 128, 4095, 4096, 20_000] {
        samples.push(vec![b'x'; len]);
    }
    samples.extend([b"-0".to_vec(), b"01".to_vec(), b"\xff\x00".to_vec()]);
    samples
}

fn pack<const BACK: bool>(samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for sample in samples {
        let (before, element) = (bytes.len(), Element::parse(sample));
        push::<BACK>(&mut bytes, element);
        assert_eq!(bytes.len() - before, element.stored_len::<BACK>());
        assert_eq!(element.text_len(), sample.len());
    }
    bytes
}

fn check<const BACK: bool>() {
    let samples = samples();
    let bytes = pack::<BACK>(&samples);
    assert_eq!(Listpack::<BACK>::validate(&bytes), Ok(samples.len()));
    let list = Listpack::<BACK>::new(&bytes);
    assert_eq!(list.len(), samples.len());
    let read: Vec<_> = list.iter().map(|(_, element)| element.to_vec()).collect();
    assert_eq!(read, samples);
    for sample in &samples {
        let at = list.find(sample, 0, 1).unwrap();
        assert_eq!(list.read(at).0.to_vec(), *sample);
    }
    assert_eq!(list.find(b"absent", 0, 1), None);
    for len in (0..bytes.len()).step_by(if cfg!(miri) { 997 } else { 1 }) {
        let whole = Listpack::<BACK>::validate(&bytes[..len]);
        assert_eq!(whole.is_ok(), list.iter().any(|(at, _)| at == len), "cut at {len}");
    }
}

#[test]
fn elements_come_back_in_both_forms() {
    check::<true>();
    check::<false>();
}

#[test]
fn a_stride_looks_at_every_other_element() {
    let samples: Vec<Vec<u8>> = ["a", "b", "b", "c"].map(|text| text.as_bytes().to_vec()).into();
    let bytes = pack::<false>(&samples);
    let list = Listpack::<false>::new(&bytes);
    assert_eq!(list.find(b"b", 0, 2), Some(4));
    assert_eq!(list.find(b"c", 0, 2), None);
}

#[test]
fn the_form_of_redis_is_read_and_written() {
    // From DUMP in Redis 8.2.3 after `RPUSH l a 1 -1 1000 xyz`.
    let golden =
        b"\x17\x00\x00\x00\x05\x00\x81a\x02\x01\x01\xdf\xff\x02\xc3\xe8\x02\x83xyz\x04\xff";
    let elements = [&b"a"[..], b"1", b"-1", b"1000", b"xyz"].map(Element::parse);
    let written = to_redis(elements.into_iter());
    assert_eq!(written, golden);
    let (list, count) = from_redis(&written).unwrap();
    assert_eq!(count, 5);
    assert!(list.iter().map(|(_, element)| element).eq(elements));
}

#[test]
fn broken_forms_are_refused() {
    let good = to_redis([Element::Int(5), Element::Bytes(b"text")].into_iter());
    assert!(from_redis(&good).is_ok());
    for len in 0..good.len() {
        assert!(from_redis(&good[..len]).is_err());
    }
    for (at, value) in [(0, 1), (4, 9), (6, 0xf5), (7, 3), (good.len() - 1, 0)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert!(from_redis(&bad).is_err(), "byte {at}");
    }
    let mut unknown = good.clone();
    unknown[4..6].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(from_redis(&unknown).map(|(_, count)| count), Ok(2));
}

#[test]
fn foreign_bytes_never_panic() {
    let mut word = 1u64;
    for _ in 0..if cfg!(miri) { 100 } else { 50_000 } {
        let bytes: Vec<u8> = (0..12)
            .map(|_| {
                word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (word >> 56) as u8
            })
            .collect();
        if Listpack::<true>::validate(&bytes).is_ok() {
            Listpack::<true>::new(&bytes).iter().for_each(drop);
        }
        if let Ok(count) = Listpack::<false>::validate(&bytes) {
            assert_eq!(Listpack::<false>::new(&bytes).len(), count);
        }
    }
}
