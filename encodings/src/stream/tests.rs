//! Nodes come back in both forms, and broken ones are refused.

use super::*;

type Pair = (&'static [u8], &'static [u8]);

fn build(entries: &[(StreamId, Vec<Pair>)]) -> (Vec<u8>, Counts) {
    let id = entries[0].0;
    let mut bytes = Vec::new();
    let fields = entries[0].1.iter().map(|(field, _)| *field);
    let mut redis_elements = push_fields(&mut bytes, fields);
    for (entry, pairs) in entries {
        let mut packed = Vec::new();
        let node = Node::new(id, &bytes);
        redis_elements += push_entry(&mut packed, &node, *entry, pairs.iter().copied());
        bytes.extend(packed);
    }
    (bytes, Counts { live: entries.len(), deleted: 0, redis_elements })
}

fn samples() -> Vec<(StreamId, Vec<Pair>)> {
    let long: &'static [u8] = &[b'x'; 300];
    vec![
        (StreamId::new(5, u64::MAX), vec![(b"temperature", b"12"), (b"7", b"-4")]),
        (StreamId::new(6, 0), vec![(b"temperature", b"12.5"), (b"7", long)]),
        (StreamId::new(6, 1), vec![(b"temperature", b"13"), (b"8", b"")]),
        (StreamId::new(u64::MAX - 1, 3), vec![(b"other", b"1")]),
        (StreamId::new(u64::MAX, 2), vec![(b"temperature", b""), (b"7", b"99999999999")]),
    ]
}

#[test]
fn entries_come_back_and_deleted_ones_are_told() {
    let samples = samples();
    let (mut bytes, counts) = build(&samples);
    let id = samples[0].0;
    assert_eq!(Node::validate(id, &bytes), Ok(counts));
    let offset = Node::new(id, &bytes).entries().nth(2).unwrap().offset;
    mark_deleted(&mut bytes, offset);
    let counts = Counts { live: 4, deleted: 1, ..counts };
    assert_eq!(Node::validate(id, &bytes), Ok(counts));
    let node = Node::new(id, &bytes);
    let mut entries = node.entries();
    for (at, (id, pairs)) in samples.iter().enumerate() {
        let entry = entries.next().unwrap();
        assert_eq!((entry.id, entry.is_deleted), (*id, at == 2));
        assert_eq!(entry.pairs.len(), pairs.len());
        let texts = entry.pairs.map(|(field, value)| (field.to_vec(), value.to_vec()));
        let expected = pairs.iter().map(|(field, value)| (field.to_vec(), value.to_vec()));
        assert!(texts.eq(expected));
    }
    assert!(entries.next().is_none());
    let redis = to_redis(&node, &counts);
    assert_eq!(redis.len(), counts.redis_bytes());
    assert_eq!(from_redis(id, &redis), Ok((bytes, counts)));
}

#[test]
fn a_node_of_redis_is_read_and_written_to_the_byte() {
    // Redis 8.2.3 after XADD s 1-1 f 5, XADD s 1-2 g x, XADD s 1-3 f 6 and XDEL s 1-2.
    let elements: [Element<'_>; 23] = [
        Element::Int(2),
        Element::Int(1),
        Element::Int(1),
        Element::Bytes(b"f"),
        Element::Int(0),
        Element::Int(2),
        Element::Int(0),
        Element::Int(0),
        Element::Int(5),
        Element::Int(4),
        Element::Int(1),
        Element::Int(0),
        Element::Int(1),
        Element::Int(1),
        Element::Bytes(b"g"),
        Element::Bytes(b"x"),
        Element::Int(6),
        Element::Int(2),
        Element::Int(0),
        Element::Int(2),
        Element::Int(6),
        Element::Int(4),
        Element::Int(9),
    ];
    let id = StreamId::new(1, 1);
    let redis = listpack::to_redis(elements[..22].iter().copied());
    let (bytes, counts) = from_redis(id, &redis).unwrap();
    assert_eq!((counts.live, counts.deleted), (2, 1));
    assert_eq!(to_redis(&Node::new(id, &bytes), &counts), redis);
    let broken = |elements: &[Element<'_>]| {
        assert_eq!(from_redis(id, &listpack::to_redis(elements.iter().copied())), Err(Corrupt));
    };
    broken(&elements);
    for at in 0..22 {
        broken(&elements[..at]);
        let mut changed = elements[..22].to_vec();
        changed[at] = Element::Bytes(b"no number");
        if ![3, 8, 14, 15, 20].contains(&at) {
            broken(&changed);
        }
    }
}

#[test]
fn ids_that_do_not_ascend_are_refused() {
    let mut samples = samples();
    samples.swap(1, 2);
    let (bytes, _) = build(&samples);
    assert_eq!(Node::validate(samples[0].0, &bytes), Err(Corrupt));
    assert_eq!(Node::validate(StreamId::new(7, 0), &bytes), Err(Corrupt));
}

#[test]
fn cut_nodes_are_refused_or_shorter() {
    let samples = samples();
    let (bytes, counts) = build(&samples);
    for end in 0..bytes.len() {
        let cut = Node::validate(samples[0].0, &bytes[..end]);
        assert!(cut.is_err() || cut.is_ok_and(|cut| cut.live < counts.live));
    }
}

#[test]
fn ids_step_in_both_directions() {
    let id = StreamId::new(3, u64::MAX);
    assert_eq!(id.next(), Some(StreamId::new(4, 0)));
    assert_eq!(StreamId::new(4, 0).previous(), Some(id));
    assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    assert_eq!(StreamId::from_bytes(id.to_bytes()), id);
    assert_eq!(id.to_string(), "3-18446744073709551615");
}

#[test]
fn an_entry_takes_little_more_than_its_value() {
    let pairs: [Pair; 1] = [(b"field", b"4000")];
    let entries: Vec<_> = (0..100).map(|i| (StreamId::new(9, i), pairs.to_vec())).collect();
    let (bytes, _) = build(&entries);
    assert_eq!(bytes.len(), 1 + 6 + 100 * 5);
}
