//! Values as DUMP writes them: type and body of an RDB file.

use encodings::double;
use encodings::intset::{self, Intset};
use encodings::listpack::{self, Element, REDIS_OVERHEAD};
use encodings::rdb;
use engine::{List, Member, Members, StringValue, Value, ValueType};

/// Type and body of a value, and the version of RDB that it needs.
pub(in crate::command) fn serialize(value: &Value<'_>, compress: bool) -> (Vec<u8>, u16) {
    let mut writer = Writer { out: Vec::new(), compress };
    let version = match value {
        Value::String(text) => {
            writer.out.push(rdb::TYPE_STRING);
            text.with_text(|text| writer.string(text));
            rdb::DUMP_VERSION
        }
        Value::List(list) => writer.list(list),
        Value::Stream(stream) => {
            writer.out.push(rdb::TYPE_STREAM_3);
            rdb::write_stream(&mut writer.out, &stream.to_rdb(), compress);
            rdb::DUMP_VERSION
        }
        Value::Members(members) => match members.value_type() {
            ValueType::Hash => writer.hash(members),
            ValueType::Set => writer.set(members),
            _ => writer.sorted_set(members),
        },
    };
    (writer.out, version)
}

struct Writer {
    out: Vec<u8>,
    compress: bool,
}

fn element(value: StringValue<'_>) -> Element<'_> {
    match value {
        StringValue::Int(value) => Element::Int(value),
        StringValue::Bytes(bytes) => Element::parse(bytes),
    }
}

impl Writer {
    fn string(&mut self, text: &[u8]) {
        rdb::write_string(&mut self.out, text, self.compress);
    }

    fn value(&mut self, value: StringValue<'_>) {
        value.with_text(|text| self.string(text));
    }

    fn list(&mut self, list: &List<'_>) -> u16 {
        /// Kinds of nodes, and the bytes up to which elements share one, as Redis's default has it.
        const PLAIN: u64 = 1;
        const PACKED: u64 = 2;
        const NODE_BYTES_MAX: usize = 8192;
        let mut nodes: Vec<Vec<StringValue<'_>>> = Vec::new();
        let mut len = usize::MAX;
        for value in list.iter_from(0) {
            let bytes = element(value).stored_len::<true>();
            if len.saturating_add(bytes) > NODE_BYTES_MAX - REDIS_OVERHEAD {
                nodes.push(Vec::new());
                len = 0;
            }
            len += bytes;
            nodes.last_mut().expect("a node was begun").push(value);
        }
        self.out.push(rdb::TYPE_LIST_QUICKLIST);
        rdb::write_len(&mut self.out, nodes.len() as u64);
        for node in nodes {
            match node[..] {
                [StringValue::Bytes(bytes)] if bytes.len() > NODE_BYTES_MAX => {
                    rdb::write_len(&mut self.out, PLAIN);
                    self.string(bytes);
                }
                _ => {
                    rdb::write_len(&mut self.out, PACKED);
                    self.string(&listpack::to_redis(node.into_iter().map(element)));
                }
            }
        }
        rdb::DUMP_VERSION
    }

    fn set(&mut self, set: &Members<'_>) -> u16 {
        if set.is_intset() {
            self.out.push(rdb::TYPE_SET_INTSET);
            let mut integers = Vec::new();
            set.for_each(|member| {
                if let StringValue::Int(value) = member.name {
                    intset::insert(&mut integers, value);
                }
            });
            self.string(&Intset::new(&integers).to_redis());
        } else if set.is_packed() {
            self.out.push(rdb::TYPE_SET_LISTPACK);
            let mut members = Vec::with_capacity(set.len());
            set.for_each(|member| members.push(element(member.name)));
            self.string(&listpack::to_redis(members.into_iter()));
        } else {
            self.out.push(rdb::TYPE_SET);
            rdb::write_len(&mut self.out, set.len() as u64);
            set.for_each(|member| self.value(member.name));
        }
        rdb::DUMP_VERSION
    }

    fn sorted_set(&mut self, set: &Members<'_>) -> u16 {
        if set.is_packed() {
            self.out.push(rdb::TYPE_SORTED_SET_LISTPACK);
            let mut texts = Vec::with_capacity(set.len());
            set.for_each(|member| texts.push((member.name, double::format(member.score))));
            let elements = texts
                .iter()
                .flat_map(|(name, score)| [element(*name), Element::parse(score.as_bytes())]);
            self.string(&listpack::to_redis(elements));
        } else {
            self.out.push(rdb::TYPE_SORTED_SET);
            rdb::write_len(&mut self.out, set.len() as u64);
            // Redis loads it faster from the highest score down.
            set.each_ranked(0..set.len(), true, |member| {
                self.value(member.name);
                self.out.extend(member.score.to_le_bytes());
            });
        }
        rdb::DUMP_VERSION
    }

    fn hash(&mut self, hash: &Members<'_>) -> u16 {
        let mut fields: Vec<Member<'_>> = Vec::with_capacity(hash.len());
        hash.for_each(|field| fields.push(field));
        let first = fields.iter().filter_map(|field| field.expire_at).min();
        match (first, hash.is_packed()) {
            (None, true) => {
                self.out.push(rdb::TYPE_HASH_LISTPACK);
                let elements =
                    fields.iter().flat_map(|field| [element(field.name), element(field.value)]);
                self.string(&listpack::to_redis(elements));
            }
            (None, false) => {
                self.out.push(rdb::TYPE_HASH);
                rdb::write_len(&mut self.out, fields.len() as u64);
                for field in &fields {
                    self.value(field.name);
                    self.value(field.value);
                }
            }
            (Some(first), true) => {
                self.out.push(rdb::TYPE_HASH_LISTPACK_TIMES);
                self.out.extend(first.to_le_bytes());
                fields.sort_by_key(|field| field.expire_at.unwrap_or(u64::MAX));
                let elements = fields.iter().flat_map(|field| {
                    let time = field.expire_at.unwrap_or(0) as i64;
                    [element(field.name), element(field.value), Element::Int(time)]
                });
                self.string(&listpack::to_redis(elements));
            }
            (Some(first), false) => {
                self.out.push(rdb::TYPE_HASH_TIMES);
                self.out.extend(first.to_le_bytes());
                rdb::write_len(&mut self.out, fields.len() as u64);
                for field in &fields {
                    let time = field.expire_at.map_or(0, |at_ms| at_ms - first + 1);
                    rdb::write_len(&mut self.out, time);
                    self.value(field.name);
                    self.value(field.value);
                }
            }
        }
        if first.is_some() { rdb::FIELD_TIMES_VERSION } else { rdb::DUMP_VERSION }
    }
}
