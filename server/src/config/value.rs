//! Values of directives: what each kind takes, and the canonical text that CONFIG GET shows.

use std::borrow::Cow;

/// What values a directive takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer in a range.
    Integer(i64, i64),
    /// A number in a range that Redis keeps without a sign, which shows in the refusals.
    Unsigned(u64, u64),
    /// Bytes in a range, with a unit if one likes.
    Memory(u64, u64),
    /// Bytes in a range that Redis keeps with a sign.
    SignedMemory(u64, u64),
    /// Bytes, or a percentage of `maxmemory`.
    MemoryOrPercent,
    /// File mode bits.
    Octal,
    /// One of some words.
    Enum(&'static [&'static str]),
    /// Some of some words.
    Set(&'static [&'static str]),
    /// Any bytes; empty is as good as not set.
    Secret,
    /// A text; empty is as good as not set.
    Text,
    /// A text; an empty one is a value like any other.
    TextOrEmpty,
    /// Addresses to listen on.
    Addresses,
    /// Host and port of a master, or `no one`.
    Master,
    /// Pairs of seconds and changes.
    Save,
    /// Class, hard limit, soft limit, seconds; repeated.
    OutputLimits,
    /// Classes of keyspace events.
    Events,
    /// Three scores.
    OomValues,
    /// Percentages.
    Percentiles,
    /// A number of shards, or `auto`.
    Shards,
}

/// Why a value was refused, in Redis's words.
pub(super) type Refusal = Cow<'static, str>;

const WRONG_NUMBER: &str = "wrong number of arguments";
const NEGATIVE: &str = "argument must be greater or equal to 0";
const ADDRESSES_MAX: usize = 16;

impl Kind {
    /// Whether the value is any number of words; otherwise it is exactly one.
    pub(super) fn takes_words(self) -> bool {
        use Kind::*;
        matches!(self, Set(_) | Addresses | Master | Save | OutputLimits | OomValues | Percentiles)
    }

    /// The words of a value that CONFIG SET is given, or of a canonical one.
    pub(super) fn words(self, value: &[u8]) -> Vec<&[u8]> {
        match self.takes_words() {
            true if value.is_empty() => Vec::new(),
            true => value.split(|byte| *byte == b' ').collect(),
            false => vec![value],
        }
    }

    /// The canonical text of a value of some words; `current` is the one that it replaces.
    /// It is UTF-8 for every kind but [`Kind::Secret`].
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn canonical(self, words: &[&[u8]], current: &str) -> Result<Vec<u8>, Refusal> {
        if let Self::Secret = self {
            return Ok(single(words)?.to_vec());
        }
        if let Self::Text | Self::TextOrEmpty = self {
            return text(single(words)?).map(String::into_bytes);
        }
        // Other bytes than UTF-8 are in no valid value, and stay invalid as replacement characters.
        let words: Vec<Cow<'_, str>> =
            words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        if self.takes_words() {
            return self.canonical_words(&words, current).map(String::into_bytes);
        }
        self.canonical_word(single(&words)?).map(String::into_bytes)
    }

    fn canonical_words(self, words: &[&str], current: &str) -> Result<String, Refusal> {
        match self {
            Self::Set(known) => set(words, known),
            Self::Addresses => addresses(words),
            Self::Master => master(words),
            Self::Save => save(words),
            Self::OutputLimits => output_limits(words, current),
            Self::OomValues => oom_values(words),
            _ => percentiles(words),
        }
    }

    fn canonical_word(self, value: &str) -> Result<String, Refusal> {
        match self {
            Self::Bool => match value.to_ascii_lowercase().as_str() {
                word @ ("yes" | "no") => Ok(word.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Self::Integer(min, max) => {
                let number = encodings::integer::parse_i64(value.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                in_range(number, min, max)
            }
            Self::Unsigned(min, max) => {
                let number = encodings::integer::parse_i64(value.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                in_range(u64::try_from(number).map_err(|_| NEGATIVE)?, min, max)
            }
            Self::Memory(min, max) => {
                let bytes = parse_memory(value).ok_or("argument must be a memory value")?;
                // Redis reads it with a sign first.
                in_range(i64::try_from(bytes).map_err(|_| NEGATIVE)? as u64, min, max)
            }
            Self::SignedMemory(min, max) => {
                in_range(parse_memory(value).ok_or("argument must be a memory value")?, min, max)
            }
            Self::MemoryOrPercent => memory_or_percent(value),
            Self::Octal => octal(value),
            Self::Enum(known) => pick(value, known).map(str::to_owned).ok_or_else(|| one_of(known)),
            Self::Events => events(value),
            _ => match value.parse::<u32>() {
                _ if value.eq_ignore_ascii_case("auto") => Ok("auto".to_owned()),
                Ok(shards @ 1..=256) => Ok(shards.to_string()),
                _ => Err("argument must be 'auto' or a number between 1 and 256".into()),
            },
        }
    }
}

/// The only word of a value.
fn single<T: Copy>(words: &[T]) -> Result<T, Refusal> {
    match words {
        [word] => Ok(*word),
        _ => Err(WRONG_NUMBER.into()),
    }
}

fn text(value: &[u8]) -> Result<String, Refusal> {
    // Redis keeps such values as C strings.
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    let text = std::str::from_utf8(&value[..end]).map_err(|_| "argument must be UTF-8")?;
    Ok(text.to_owned())
}

fn in_range<T: PartialOrd + std::fmt::Display>(
    value: T,
    min: T,
    max: T,
) -> Result<String, Refusal> {
    if (&min..=&max).contains(&&value) {
        Ok(value.to_string())
    } else {
        Err(format!("argument must be between {min} and {max} inclusive").into())
    }
}

/// Bytes with an optional unit: `k` is 1000, `kb` 1024, and so on, in any case. As in Redis, no
/// digits are 0, and more than 64 bits hold are the largest number.
pub fn parse_memory(value: &str) -> Option<u64> {
    let digits_len = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(digits_len);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    if digits.is_empty() {
        return Some(0);
    }
    Some(digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(factor))
}

fn memory_or_percent(value: &str) -> Result<String, Refusal> {
    const REFUSAL: &str = "argument must be a memory or percent value";
    if let Some(bytes) = parse_memory(value) {
        return in_range(bytes, 0, i64::MAX as u64);
    }
    let percent = value.strip_suffix('%').ok_or(REFUSAL)?;
    match encodings::integer::parse_i64(percent.as_bytes()) {
        Some(0) => Ok("0".to_owned()),
        Some(percent @ 1..=100) => Ok(format!("{percent}%")),
        Some(101..) => Err("percentage argument must be less or equal to 100".into()),
        _ => Err(REFUSAL.into()),
    }
}

fn octal(value: &str) -> Result<String, Refusal> {
    match u32::from_str_radix(value, 8) {
        Ok(mode) if mode <= 0o777 => Ok(format!("{mode:o}")),
        Ok(_) => Err("argument must be between 0 and 777 inclusive".into()),
        Err(_) => Err("argument couldn't be parsed as an octal number".into()),
    }
}

fn pick<'a>(value: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().copied().find(|word| word.eq_ignore_ascii_case(value))
}

fn one_of(known: &[&str]) -> Refusal {
    format!("argument(s) must be one of the following: {}", known.join(", ")).into()
}

fn set(words: &[&str], known: &[&str]) -> Result<String, Refusal> {
    let picked: Option<Vec<&str>> = words.iter().map(|word| pick(word, known)).collect();
    let picked = picked.filter(|picked| !picked.is_empty()).ok_or_else(|| one_of(known))?;
    if picked.contains(&"save") && picked.contains(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    // The first word stands for none of the others.
    let mut ordered: Vec<&str> =
        known[1..].iter().copied().filter(|word| picked.contains(word)).collect();
    if ordered.is_empty() {
        ordered.push(known[0]);
    }
    Ok(ordered.join(" "))
}

fn addresses(words: &[&str]) -> Result<String, Refusal> {
    if words.len() > ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    Ok(words.join(" "))
}

fn master(words: &[&str]) -> Result<String, Refusal> {
    let [host, port] = words else { return Err(WRONG_NUMBER.into()) };
    if host.eq_ignore_ascii_case("no") && port.eq_ignore_ascii_case("one") {
        return Ok(String::new());
    }
    match port.parse::<u16>() {
        Ok(port) => Ok(format!("{host} {port}")),
        Err(_) => Err("Invalid master port".into()),
    }
}

fn save(words: &[&str]) -> Result<String, Refusal> {
    const REFUSAL: &str = "Invalid save parameters";
    let words = if words == [""] { &[] } else { words };
    let mut numbers = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let least = if index.is_multiple_of(2) { 1 } else { 0 };
        let number = word.parse::<i64>().ok().filter(|number| *number >= least).ok_or(REFUSAL)?;
        numbers.push(number.to_string());
    }
    if !numbers.len().is_multiple_of(2) {
        return Err(REFUSAL.into());
    }
    Ok(numbers.join(" "))
}

fn output_limits(words: &[&str], current: &str) -> Result<String, Refusal> {
    const REFUSAL: &str =
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits: Vec<String> = current.split(' ').map(str::to_owned).collect();
    for group in words.chunks(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let hard = parse_memory(group[1]).ok_or(REFUSAL)?;
        let soft = parse_memory(group[2]).ok_or(REFUSAL)?;
        let seconds = group[3].parse::<i64>().ok().filter(|seconds| *seconds >= 0);
        let seconds = seconds.ok_or(REFUSAL)?;
        for (place, number) in limits[class * 4 + 1..].iter_mut().zip([hard, soft, seconds as u64])
        {
            *place = number.to_string();
        }
    }
    Ok(limits.join(" "))
}

/// The classes of keyspace events in the order in which Redis shows them; `A` is all of the
/// first group. The others have to be asked for one by one.
const EVENTS_OF_A: &str = "g$lshzxetd";
const EVENTS_BESIDE_A: &str = "noc";
const EVENTS_AFTER: &str = "KEm";

fn events(value: &str) -> Result<String, Refusal> {
    let known = [EVENTS_OF_A, EVENTS_BESIDE_A, EVENTS_AFTER, "A"].concat();
    if value.chars().any(|class| !known.contains(class)) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    }
    let is_on = |class: &char| value.contains(*class);
    let mut text = String::new();
    if is_on(&'A') || EVENTS_OF_A.chars().all(|class| is_on(&class)) {
        text.push('A');
    } else {
        text.extend(EVENTS_OF_A.chars().filter(is_on));
    }
    text.extend(EVENTS_BESIDE_A.chars().chain(EVENTS_AFTER.chars()).filter(is_on));
    Ok(text)
}

/// The classes of events as Redis shows them: beside `A` it leaves out those that `A` does not
/// include.
pub(super) fn shown_events(classes: &str) -> String {
    let is_shown = |class: &char| !(classes.contains('A') && EVENTS_BESIDE_A.contains(*class));
    classes.chars().filter(is_shown).collect()
}

fn oom_values(words: &[&str]) -> Result<String, Refusal> {
    if words.len() != 3 {
        return Err(WRONG_NUMBER.into());
    }
    let mut scores = Vec::new();
    for word in words {
        let score = word.parse::<i64>().ok().filter(|score| (-2000..=2000).contains(score));
        let score = score
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
        scores.push(score.to_string());
    }
    Ok(scores.join(" "))
}

fn percentiles(words: &[&str]) -> Result<String, Refusal> {
    let words = if words == [""] { &[] } else { words };
    let mut texts = Vec::new();
    for word in words {
        let percent = word
            .parse::<f64>()
            .map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percent) {
            return Err("latency-tracking-info-percentiles parameters should sit between \
                        [0.0,100.0]"
                .into());
        }
        let text = format!("{percent:.6}");
        texts.push(text.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT_LIMITS: &str =
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

    fn check(kind: Kind, value: &str, expected: Result<&str, &str>) {
        let words = kind.words(value.as_bytes());
        let found = kind.canonical(&words, OUTPUT_LIMITS);
        let expected = expected.map(|text| text.as_bytes().to_vec());
        assert_eq!(found, expected.map_err(Into::into), "{kind:?} {value}");
    }

    #[test]
    fn single_words() {
        check(Kind::Bool, "YES", Ok("yes"));
        check(Kind::Bool, "1", Err("argument must be 'yes' or 'no'"));
        check(Kind::Integer(0, 10), "10", Ok("10"));
        check(Kind::Integer(0, 10), "11", Err("argument must be between 0 and 10 inclusive"));
        for value in ["x", "", "01", "+1", " 1", "99999999999999999999"] {
            check(Kind::Integer(0, 10), value, Err("argument couldn't be parsed into an integer"));
        }
        check(Kind::Memory(0, 1 << 40), "2kb", Ok("2048"));
        check(Kind::Memory(0, 1 << 40), "1G", Ok("1000000000"));
        check(Kind::Memory(0, 1 << 40), "", Ok("0"));
        check(Kind::Memory(0, 9), "9223372036854775808", Err(NEGATIVE));
        check(Kind::Unsigned(1, 9), "-1", Err(NEGATIVE));
        check(Kind::Unsigned(1, 9), "0", Err("argument must be between 1 and 9 inclusive"));
        check(Kind::Memory(0, 9), "1kb", Err("argument must be between 0 and 9 inclusive"));
        for value in ["1x", "-1", "1.5", " 1", "x"] {
            check(Kind::Memory(0, 9), value, Err("argument must be a memory value"));
        }
        check(Kind::MemoryOrPercent, "5%", Ok("5%"));
        check(Kind::MemoryOrPercent, "1kb", Ok("1024"));
        let refusal = "percentage argument must be less or equal to 100";
        check(Kind::MemoryOrPercent, "200%", Err(refusal));
        check(Kind::MemoryOrPercent, "%", Err("argument must be a memory or percent value"));
        check(Kind::Octal, "755", Ok("755"));
        check(Kind::Octal, "778", Err("argument couldn't be parsed as an octal number"));
        check(Kind::Octal, "1000", Err("argument must be between 0 and 777 inclusive"));
        check(Kind::Enum(&["a", "b"]), "B", Ok("b"));
        check(Kind::Enum(&["a", "b"]), "c", Err("argument(s) must be one of the following: a, b"));
        check(Kind::Shards, "257", Err("argument must be 'auto' or a number between 1 and 256"));
    }

    #[test]
    fn several_words() {
        check(Kind::Save, "3600 1 300 100", Ok("3600 1 300 100"));
        check(Kind::Save, "", Ok(""));
        for value in ["3600", "0 1", "1 -1", "1 x", "1  2"] {
            check(Kind::Save, value, Err("Invalid save parameters"));
        }
        check(
            Kind::OutputLimits,
            "pubsub 1kb 0 5 replica 1 2 3",
            Ok("normal 0 0 0 slave 1 2 3 pubsub 1024 0 5"),
        );
        check(
            Kind::OutputLimits,
            "master 0 0 0",
            Err("Invalid client class specified in buffer limit configuration."),
        );
        check(
            Kind::Percentiles,
            "50 101",
            Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"),
        );
        check(Kind::Percentiles, "50.0 99.12345678", Ok("50 99.123457"));
        check(Kind::OomValues, "1 2", Err("wrong number of arguments"));
        check(Kind::Master, "no one", Ok(""));
        check(Kind::Master, "host abc", Err("Invalid master port"));
        let words = Kind::Set(&["default", "save", "nosave", "now", "force"]);
        check(words, "force now", Ok("now force"));
        check(words, "default", Ok("default"));
        let refusal = "shutdown options SAVE and NOSAVE can't be used simultaneously";
        check(words, "save nosave", Err(refusal));
    }

    #[test]
    fn classes_of_events() {
        check(Kind::Events, "KEA", Ok("AKE"));
        check(Kind::Events, "Kx$n", Ok("$xnK"));
        check(Kind::Events, "nKA", Ok("AnK"));
        check(Kind::Events, "cono", Ok("noc"));
        assert_eq!(shown_events("AnK"), "AK");
        assert_eq!(shown_events("nK"), "nK");
        check(Kind::Events, "q", Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."));
    }

    #[test]
    fn secrets_are_any_bytes_and_texts_are_not() {
        let bytes: &[&[u8]] = &[b"\xff\0x"];
        assert_eq!(Kind::Secret.canonical(bytes, ""), Ok(b"\xff\0x".to_vec()));
        assert_eq!(Kind::Text.canonical(bytes, ""), Err("argument must be UTF-8".into()));
        assert_eq!(Kind::Text.canonical(&[b"a\0b"], ""), Ok(b"a".to_vec()));
    }
}
