//! Templates of commands: a row of a family says in one line how its calls look.
//!
//! ```text
//! SET <string> <value> [NX|XX] [EX <seconds>|KEEPTTL]
//! word            itself
//! <pool>          words drawn from that pool of the round's material
//! [a|b]           nothing, or one of the alternatives
//! (a|b)           one of the alternatives
//! {a b}           once or several times
//! #{a b}          the same, with the number of times before it
//! ```

use crate::differential::material::{Material, Pool};
use crate::random::Random;

/// A sequence of nodes.
pub type Sequence = Vec<Node>;

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A word that is always the same.
    Word(String),
    /// Words from a pool.
    Pool(Pool),
    /// Nothing, or one of these.
    Optional(Vec<Sequence>),
    /// One of these.
    Choice(Vec<Sequence>),
    /// Once or several times.
    Many(Sequence),
    /// The same, after a count.
    Counted(Sequence),
}

/// Reads a template.
///
/// # Errors
/// A bracket is left open or never opened, or a pool is unknown: the text says which.
pub fn parse(template: &str) -> Result<Sequence, String> {
    let spaced = template
        .replace("#{", " \u{1} ")
        .chars()
        .map(|character| match character {
            '[' | ']' | '(' | ')' | '{' | '}' | '|' => format!(" {character} "),
            other => other.to_string(),
        })
        .collect::<String>();
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let alternatives = alternatives(&tokens, &mut at)?;
    match (at == tokens.len(), <[Sequence; 1]>::try_from(alternatives)) {
        (true, Ok([sequence])) => Ok(sequence),
        _ => Err(format!("`{template}` closes or divides what was not opened")),
    }
}

/// Reads up to a closing bracket or the end.
fn alternatives(tokens: &[&str], at: &mut usize) -> Result<Vec<Sequence>, String> {
    let mut done = Vec::new();
    let mut sequence = Sequence::new();
    while let Some(token) = tokens.get(*at) {
        let node = match *token {
            "]" | ")" | "}" => break,
            "|" => {
                done.push(std::mem::take(&mut sequence));
                *at += 1;
                continue;
            }
            "[" => Node::Optional(bracket(tokens, at, "]")?),
            "(" => Node::Choice(bracket(tokens, at, ")")?),
            "{" => Node::Many(bracket(tokens, at, "}")?.concat()),
            "\u{1}" => Node::Counted(bracket(tokens, at, "}")?.concat()),
            word => match word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
                Some(name) => {
                    Node::Pool(Pool::named(name).ok_or_else(|| format!("no pool <{name}>"))?)
                }
                None => Node::Word(word.to_owned()),
            },
        };
        sequence.push(node);
        *at += 1;
    }
    done.push(sequence);
    Ok(done)
}

/// Reads a bracket; `at` ends on its closing token.
fn bracket(tokens: &[&str], at: &mut usize, close: &str) -> Result<Vec<Sequence>, String> {
    *at += 1;
    let alternatives = alternatives(tokens, at)?;
    match tokens.get(*at) {
        Some(token) if *token == close => Ok(alternatives),
        _ => Err(format!("`{close}` is missing")),
    }
}

/// Whether the sequence draws from one of these pools.
pub fn draws(sequence: &[Node], of: fn(Pool) -> bool) -> bool {
    sequence.iter().any(|node| match node {
        Node::Word(_) => false,
        Node::Pool(pool) => of(*pool),
        Node::Optional(alternatives) | Node::Choice(alternatives) => {
            alternatives.iter().any(|sequence| draws(sequence, of))
        }
        Node::Many(sequence) | Node::Counted(sequence) => draws(sequence, of),
    })
}

/// Appends the words of one call.
pub fn expand(
    sequence: &[Node],
    material: &mut Material,
    random: &mut Random,
    out: &mut Vec<Vec<u8>>,
) {
    for node in sequence {
        match node {
            Node::Word(word) => out.push(word.clone().into_bytes()),
            Node::Pool(pool) => material.draw(*pool, random, out),
            Node::Optional(_) if !random.once_in(3) => {}
            Node::Optional(alternatives) | Node::Choice(alternatives) => {
                let alternative: &Sequence = random.pick(alternatives.as_slice());
                expand(alternative, material, random, out);
            }
            Node::Many(sequence) => {
                for _ in 0..material.repeats(random) {
                    expand(sequence, material, random, out);
                }
            }
            Node::Counted(sequence) => {
                let count = material.repeats(random);
                let told = match random.below(30) {
                    0 => count + 1,
                    1 => count - 1,
                    _ => count,
                };
                out.push(told.to_string().into_bytes());
                for _ in 0..count {
                    expand(sequence, material, random, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::material::Level;

    #[test]
    fn templates_are_read() {
        let word = |text: &str| Node::Word(text.to_owned());
        assert_eq!(parse("GET a"), Ok(vec![word("GET"), word("a")]));
        let optional = Node::Optional(vec![vec![word("NX")], vec![word("EX"), word("1")]]);
        assert_eq!(parse("SET [NX|EX 1]"), Ok(vec![word("SET"), optional]));
        assert_eq!(parse("#{a}"), Ok(vec![Node::Counted(vec![word("a")])]));
        for wrong in ["a]", "[a", "(a]", "a|b", "<nonsense>"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_stand_before_what_they_count() {
        let sequence = parse("X #{f v}").expect("a template");
        let mut random = Random::new(1);
        let mut material = Material::new(Level::Low, &mut random);
        let mut right = 0;
        for _ in 0..200 {
            let mut words = Vec::new();
            expand(&sequence, &mut material, &mut random, &mut words);
            let told: usize = String::from_utf8_lossy(&words[1]).parse().expect("a count");
            right += usize::from(words.len() == 2 + 2 * told);
        }
        assert!((150..200).contains(&right), "{right} of 200");
    }
}
