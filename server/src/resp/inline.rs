//! Inline requests: a line of words, with the quoting that Redis's `sdssplitargs` takes.

use super::parse::ProtocolError;

/// Splits a line in words.
///
/// Double quotes take `\n \r \t \b \a`, `\xHH` and any other escaped byte as itself; single
/// quotes take `\'` only. A closing quote must be followed by a space or the end.
///
/// # Errors
/// [`ProtocolError::UnbalancedQuotes`] for a quote left open or closed inside a word.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_space(*byte)).unwrap_or(rest.len());
        rest = &rest[start..];
        // A zero byte ends the line, as it ends a C string.
        if rest.first().is_none_or(|byte| *byte == 0) {
            return Ok(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Reads one word; returns it and what follows.
fn word(line: &[u8]) -> Result<(Vec<u8>, &[u8]), ProtocolError> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match line.get(at) {
            None | Some(0) => return Ok((out, &line[at..])),
            // Form feeds and the like separate words only in front of one.
            Some(b' ' | b'\t' | b'\r' | b'\n') => return Ok((out, &line[at..])),
            Some(quote @ (b'"' | b'\'')) => {
                at = quoted(line, at + 1, *quote, &mut out)?;
                match line.get(at) {
                    Some(byte) if !is_space(*byte) && *byte != 0 => {
                        return Err(ProtocolError::UnbalancedQuotes);
                    }
                    _ => return Ok((out, &line[at..])),
                }
            }
            Some(byte) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
}

/// Reads up to the closing quote; returns the offset after it.
fn quoted(
    line: &[u8],
    mut at: usize,
    quote: u8,
    out: &mut Vec<u8>,
) -> Result<usize, ProtocolError> {
    loop {
        match *line.get(at).ok_or(ProtocolError::UnbalancedQuotes)? {
            0 => return Err(ProtocolError::UnbalancedQuotes),
            byte if byte == quote => return Ok(at + 1),
            b'\\' if quote == b'"' => {
                if let Some(byte) = hex_escape(&line[at..]) {
                    out.push(byte);
                    at += 4;
                } else {
                    let escaped = *line.get(at + 1).ok_or(ProtocolError::UnbalancedQuotes)?;
                    out.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 8,
                        b'a' => 7,
                        other => other,
                    });
                    at += 2;
                }
            }
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                out.push(b'\'');
                at += 2;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// Reads `\xHH`.
fn hex_escape(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match text {
        [b'\\', b'x', high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let words = split(line.as_bytes()).expect("balanced quotes");
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(words, expected, "{line}");
    }

    #[test]
    fn words_and_quotes() {
        check("", &[]);
        check("  set  k v ", &["set", "k", "v"]);
        check(r#"set "a b" 'c d'"#, &["set", "a b", "c d"]);
        check(r#""\x41\n\"\q" '\'\n'"#, &["A\n\"q", "'\\n"]);
        check(r#"a"b""#, &["ab"]);
        check(r#""""#, &[""]);
        check("\x0ba\x0cb\x0b c", &["a\x0cb\x0b", "c"]);
    }

    #[test]
    fn open_quotes_are_refused() {
        for line in ["\"abc", "'abc", "\"a\"b", "'a'b", "\"a\\"] {
            assert_eq!(split(line.as_bytes()), Err(ProtocolError::UnbalancedQuotes), "{line}");
        }
    }
}
