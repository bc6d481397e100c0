//! DEBUG DIGEST: numbers that two servers share when they hold the same data.
//!
//! The sums are Redis's, so that an Osmia can be compared with a Redis:
//!
//! ```text
//! xor(sum, bytes)  sum ^= SHA1(bytes)
//! mix(sum, bytes)  xor(sum, bytes); sum = SHA1(sum)
//! value sum        mix(type as 4 bytes), then mix(text) of a string or of each element of a list,
//!                  mix(id) and mix(field), mix(value) of each entry of a stream, xor(member) of each
//!                  member of a set, xor(member sum) of each member of a sorted set, or xor(field sum)
//!                  of each field of a hash; xor("!!expire!!") with a time
//! member sum       mix(member), mix(score, whole numbers in the short form too)
//! field sum        mix(field), mix(value), xor("!!hexpire!!") with a time
//! key sum          mix(name), then as the value sum
//! data set sum     for each database with keys: mix(its number), then xor(each key sum)
//! ```

use encodings::double;
use encodings::integer::TEXT_LEN_MAX;
use engine::{Partition, StreamId, Value, ValueType};
use sha1::{Digest, Sha1};

use crate::keyspace::Keyspace;

/// A sum in the making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum([u8; 20]);

impl Sum {
    fn xor(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// 40 hexadecimal digits.
    pub(super) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The sum of all databases, over all partitions that hold them.
pub(super) fn data_set(keyspace: &mut Keyspace) -> Sum {
    let mut sum = Sum::default();
    for db in 0..keyspace.databases() {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (_, partition) in keyspace.all() {
            partition.for_each_key(db, |name, _| names.push(name.to_vec()));
        }
        if names.is_empty() {
            continue;
        }
        sum.mix(&(db as u32).to_be_bytes());
        for name in names {
            let mut key_sum = Sum::default();
            key_sum.mix(&name);
            let key = keyspace.key(&name);
            add_value(&mut key_sum, keyspace.of(&key), db, &name);
            sum.xor(&key_sum.0);
        }
    }
    sum
}

/// The sum of one value; zero without the key.
pub(super) fn value(partition: &mut Partition, db: usize, name: &[u8]) -> Sum {
    let mut sum = Sum::default();
    add_value(&mut sum, partition, db, name);
    sum
}

fn add_value(sum: &mut Sum, partition: &mut Partition, db: usize, name: &[u8]) {
    /// The numbers of Redis's types.
    const STRING: u32 = 0;
    const LIST: u32 = 1;
    const SET: u32 = 2;
    const SORTED_SET: u32 = 3;
    const HASH: u32 = 4;
    const STREAM: u32 = 6;
    let key = partition.key(name);
    let is_volatile = partition.expire_time(db, &key).flatten().is_some();
    match partition.value(db, &key) {
        None => return,
        Some(Value::String(value)) => {
            sum.mix(&STRING.to_be_bytes());
            value.with_text(|text| sum.mix(text));
        }
        Some(Value::List(list)) => {
            sum.mix(&LIST.to_be_bytes());
            list.iter_from(0).for_each(|element| element.with_text(|text| sum.mix(text)));
        }
        Some(Value::Stream(stream)) => {
            sum.mix(&STREAM.to_be_bytes());
            for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                sum.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                let mut room = [0; TEXT_LEN_MAX];
                for (field, value) in entry.pairs {
                    sum.mix(field.text(&mut room));
                    sum.mix(value.text(&mut room));
                }
            }
        }
        Some(Value::Members(members)) if members.value_type() == ValueType::Set => {
            sum.mix(&SET.to_be_bytes());
            members.for_each(|member| member.name.with_text(|text| sum.xor(text)));
        }
        Some(Value::Members(members)) if members.value_type() == ValueType::SortedSet => {
            sum.mix(&SORTED_SET.to_be_bytes());
            members.for_each(|member| {
                let mut member_sum = Sum::default();
                member.name.with_text(|text| member_sum.mix(text));
                member_sum.mix(double::format_short(member.score).as_bytes());
                sum.xor(&member_sum.0);
            });
        }
        Some(Value::Members(fields)) => {
            sum.mix(&HASH.to_be_bytes());
            fields.for_each(|field| {
                let mut field_sum = Sum::default();
                field.name.with_text(|text| field_sum.mix(text));
                field.value.with_text(|text| field_sum.mix(text));
                if field.expire_at.is_some() {
                    field_sum.xor(b"!!hexpire!!");
                }
                sum.xor(&field_sum.0);
            });
        }
    }
    if is_volatile {
        sum.xor(b"!!expire!!");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Options, SetOptions};

    #[test]
    fn sums_are_those_of_redis() {
        let mut partition = Partition::new(&Options::default(), 1000).expect("an arena");
        for (name, text) in [("k", "aaa"), ("i", "12")] {
            let key = partition.key(name.as_bytes());
            partition.set(0, &key, text.as_bytes(), SetOptions::default()).expect("room");
        }
        // As Redis 8.2.3 answers them.
        let k = "44cb844452debcc4c465789eb9b1cf34c3efac67";
        assert_eq!(value(&mut partition, 0, b"k").hex(), k);
        let i = "655ac46b180ad2f61a3cee25f0b1780fa2ec879a";
        assert_eq!(value(&mut partition, 0, b"i").hex(), i);
        assert_eq!(value(&mut partition, 0, b"none"), Sum::default());
    }
}
