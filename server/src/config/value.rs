//! Values of directives: what each kind takes, and the canonical text that CONFIG GET shows.

/// What values a directive takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer in a range.
    Integer(i64, i64),
    /// Bytes in a range, with a unit if one likes.
    Memory(i64, i64),
    /// Bytes, or a percentage of `maxmemory`.
    MemoryOrPercent,
    /// File mode bits.
    Octal,
    /// One of some words.
    Enum(&'static [&'static str]),
    /// Some of some words.
    Set(&'static [&'static str]),
    /// Any text.
    Text,
    /// Words, kept as they are.
    Words,
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
pub(super) type Refusal = String;

impl Kind {
    /// Whether the value is several words on a line of a file.
    pub(super) fn takes_words(self) -> bool {
        use Kind::*;
        matches!(self, Words | Save | OutputLimits | OomValues | Percentiles | Set(_))
    }

    /// The canonical text of a value; `current` is the one that it replaces.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn canonical(self, value: &str, current: &str) -> Result<String, Refusal> {
        match self {
            Self::Bool => match value.to_ascii_lowercase().as_str() {
                word @ ("yes" | "no") => Ok(word.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Self::Integer(min, max) => {
                let number = encodings::integer::parse_i64(value.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                in_range(number, min, max)
            }
            Self::Memory(min, max) => {
                let bytes = parse_memory(value).ok_or("argument must be a memory value")?;
                in_range(bytes, min, max)
            }
            Self::MemoryOrPercent => memory_or_percent(value),
            Self::Octal => match u32::from_str_radix(value, 8) {
                Ok(mode) if mode <= 0o777 => Ok(format!("{mode:o}")),
                Ok(_) => Err("argument must be between 0 and 777 inclusive".to_owned()),
                Err(_) => Err("argument couldn't be parsed as an octal number".to_owned()),
            },
            Self::Enum(words) => pick(value, words).map(str::to_owned),
            Self::Set(words) => set(value, words),
            Self::Text => Ok(value.to_owned()),
            Self::Words => Ok(words(value).join(" ")),
            Self::Save => save(value),
            Self::OutputLimits => output_limits(value, current),
            Self::Events => events(value),
            Self::OomValues => oom_values(value),
            Self::Percentiles => percentiles(value),
            Self::Shards => match value.parse::<u32>() {
                _ if value.eq_ignore_ascii_case("auto") => Ok("auto".to_owned()),
                Ok(1..=256) => Ok(value.to_owned()),
                _ => Err("argument must be 'auto' or a number between 1 and 256".to_owned()),
            },
        }
    }
}

fn words(value: &str) -> Vec<&str> {
    value.split_ascii_whitespace().collect()
}

fn in_range(number: i64, min: i64, max: i64) -> Result<String, Refusal> {
    if (min..=max).contains(&number) {
        Ok(number.to_string())
    } else {
        Err(format!("argument must be between {min} and {max} inclusive"))
    }
}

/// Bytes with an optional unit: `k` is 1000, `kb` 1024, and so on, in any case.
pub fn parse_memory(value: &str) -> Option<i64> {
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
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

fn memory_or_percent(value: &str) -> Result<String, Refusal> {
    const REFUSAL: &str = "argument must be a memory or percent value";
    match value.strip_suffix('%') {
        Some(percent) => match percent.parse::<u64>() {
            Ok(percent) if percent <= 100 => Ok(format!("{percent}%")),
            Ok(_) => Err("percentage argument must be less or equal to 100".to_owned()),
            Err(_) => Err(REFUSAL.to_owned()),
        },
        None => Ok(parse_memory(value).ok_or(REFUSAL)?.to_string()),
    }
}

fn pick<'a>(value: &str, words: &[&'a str]) -> Result<&'a str, Refusal> {
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(value));
    found.copied().ok_or_else(|| unknown_word(words))
}

/// The refusal of a word that is none of `words`.
pub(super) fn unknown_word(words: &[&str]) -> Refusal {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

fn set(value: &str, known: &[&str]) -> Result<String, Refusal> {
    let mut picked = Vec::new();
    for word in words(value) {
        picked.push(pick(word, known)?);
    }
    if picked.contains(&"save") && picked.contains(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    let ordered: Vec<&str> = known.iter().copied().filter(|word| picked.contains(word)).collect();
    Ok(ordered.join(" "))
}

fn save(value: &str) -> Result<String, Refusal> {
    const REFUSAL: &str = "Invalid save parameters";
    let words = words(value);
    if words.len() % 2 != 0 {
        return Err(REFUSAL.to_owned());
    }
    for pair in words.chunks(2) {
        let seconds = pair[0].parse::<i64>().ok().filter(|seconds| *seconds >= 1);
        let changes = pair[1].parse::<i64>().ok().filter(|changes| *changes >= 0);
        seconds.and(changes).ok_or(REFUSAL)?;
    }
    Ok(words.join(" "))
}

fn output_limits(value: &str, current: &str) -> Result<String, Refusal> {
    let (words, mut limits) = (words(value), words(current));
    if words.len() % 4 != 0 {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut numbers = Vec::new();
    for group in words.chunks(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => {
                return Err(
                    "Invalid client class specified in buffer limit configuration.".to_owned()
                );
            }
        };
        let parsed = (parse_memory(group[1]), parse_memory(group[2]), group[3].parse::<u32>());
        let (Some(hard), Some(soft), Ok(seconds)) = parsed else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit \
                        configuration."
                .to_owned());
        };
        numbers.push((class, [hard.to_string(), soft.to_string(), seconds.to_string()]));
    }
    for (class, group) in &numbers {
        for (index, number) in group.iter().enumerate() {
            limits[class * 4 + 1 + index] = number;
        }
    }
    Ok(limits.join(" "))
}

/// The classes of keyspace events in the order in which Redis shows them; `A` is all of the
/// first group.
const EVENTS_OF_A: &str = "g$lshzxetd";
const EVENTS_BESIDE_A: &str = "KEmn";

fn events(value: &str) -> Result<String, Refusal> {
    if let Some(_unknown) = value.chars().find(|c| !"Ag$lshzxeKEtmdn".contains(*c)) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned());
    }
    let all = value.contains('A') || EVENTS_OF_A.chars().all(|class| value.contains(class));
    let mut text = String::new();
    if all {
        text.push('A');
    } else {
        text.extend(EVENTS_OF_A.chars().filter(|class| value.contains(*class)));
        text.extend(value.contains('n').then_some('n'));
    }
    text.extend(EVENTS_BESIDE_A.chars().filter(|class| *class != 'n' && value.contains(*class)));
    Ok(text)
}

fn oom_values(value: &str) -> Result<String, Refusal> {
    const REFUSAL: &str = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    let words = words(value);
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    for word in &words {
        let score = word.parse::<i64>().ok().filter(|score| (-2000..=2000).contains(score));
        score.ok_or(REFUSAL)?;
    }
    Ok(words.join(" "))
}

fn percentiles(value: &str) -> Result<String, Refusal> {
    let mut shown = Vec::new();
    for word in words(value) {
        let percent = word
            .parse::<f64>()
            .map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percent) {
            return Err("latency-tracking-info-percentiles parameters should sit between \
                        [0.0,100.0]"
                .to_owned());
        }
        shown.push(percent.to_string());
    }
    Ok(shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT_LIMITS: &str =
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

    fn check(kind: Kind, value: &str, expected: Result<&str, &str>) {
        let found = kind.canonical(value, OUTPUT_LIMITS);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{kind:?} {value}");
    }

    #[test]
    fn values_and_refusals() {
        check(Kind::Bool, "YES", Ok("yes"));
        check(Kind::Bool, "1", Err("argument must be 'yes' or 'no'"));
        check(Kind::Integer(0, 10), "10", Ok("10"));
        check(Kind::Integer(0, 10), "11", Err("argument must be between 0 and 10 inclusive"));
        check(Kind::Integer(0, 10), "x", Err("argument couldn't be parsed into an integer"));
        check(Kind::Memory(0, i64::MAX), "2kb", Ok("2048"));
        check(Kind::Memory(0, i64::MAX), "1G", Ok("1000000000"));
        check(Kind::Memory(0, i64::MAX), "1x", Err("argument must be a memory value"));
        check(Kind::MemoryOrPercent, "5%", Ok("5%"));
        check(Kind::Octal, "755", Ok("755"));
        check(Kind::Enum(&["a", "b"]), "B", Ok("b"));
        check(Kind::Enum(&["a", "b"]), "c", Err("argument(s) must be one of the following: a, b"));
        check(Kind::Save, "3600 1  300 100", Ok("3600 1 300 100"));
        check(Kind::Save, "3600", Err("Invalid save parameters"));
        check(Kind::Save, "", Ok(""));
        check(Kind::Events, "KEA", Ok("AKE"));
        check(Kind::Events, "Kx$n", Ok("$xnK"));
        check(
            Kind::OutputLimits,
            "pubsub 1kb 0 5 replica 1 2 3",
            Ok("normal 0 0 0 slave 1 2 3 pubsub 1024 0 5"),
        );
        check(
            Kind::Percentiles,
            "50 101",
            Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"),
        );
        check(Kind::Shards, "257", Err("argument must be 'auto' or a number between 1 and 256"));
    }
}
