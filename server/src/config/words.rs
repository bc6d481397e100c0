//! Words of a line: splitting and quoting, in the syntax of Redis's files.

use crate::resp::inline;

/// Splits a line in words, with the quoting of inline requests. `None`: a quote is left open.
pub fn split(line: impl AsRef<[u8]>) -> Option<Vec<Vec<u8>>> {
    inline::split(line.as_ref()).ok()
}

/// Quotes a word as Redis writes it to files and error texts.
pub(crate) fn quoted(word: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in word {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            7 => text.extend_from_slice(b"\\a"),
            8 => text.extend_from_slice(b"\\b"),
            b' '..=b'~' => text.push(*byte),
            other => text.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_split_to_themselves() {
        for word in [&b""[..], b"a b", b"\"'\\", b"\x07\x08\n\r\t\0\xff\x7f"] {
            assert_eq!(split(quoted(word)), Some(vec![word.to_vec()]));
        }
        assert_eq!(quoted(b"a\n\x01\""), b"\"a\\n\\x01\\\"\"");
    }
}
