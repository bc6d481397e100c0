//! Entries of streams as clients read them.

use encodings::integer::TEXT_LEN_MAX;
use encodings::stream::Entry;
use engine::StreamId;

use crate::resp::Reply;

/// Answers an id.
pub(super) fn answer_id(reply: &mut Reply, id: StreamId) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (ms, seq) = (ms.format(id.ms), seq.format(id.seq));
    let mut text = [0; 2 * (TEXT_LEN_MAX + 1)];
    let len = ms.len() + 1 + seq.len();
    text[..ms.len()].copy_from_slice(ms.as_bytes());
    text[ms.len()] = b'-';
    text[ms.len() + 1..len].copy_from_slice(seq.as_bytes());
    reply.bulk(&text[..len]);
}

/// Answers an entry: its id, and its fields and values in turn.
pub(super) fn answer_entry(reply: &mut Reply, entry: Entry<'_>) {
    reply.array(2);
    answer_id(reply, entry.id);
    reply.array(2 * entry.pairs.len());
    let mut room = [0; TEXT_LEN_MAX];
    for (field, value) in entry.pairs {
        reply.bulk(field.text(&mut room));
        reply.bulk(value.text(&mut room));
    }
}

/// Answers entries as an array, so many at most; how many it were.
pub(super) fn answer_entries<'e>(
    reply: &mut Reply,
    entries: impl Iterator<Item = Entry<'e>>,
    count: usize,
) -> usize {
    let start = reply.defer();
    let mut answered = 0;
    for entry in entries.take(count) {
        answer_entry(reply, entry);
        answered += 1;
    }
    reply.finish_array(start, answered);
    answered
}
