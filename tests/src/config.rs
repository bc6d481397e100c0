//! Configuration files and values under foreign bytes.

use server::config::{Config, DIRECTIVES, split_words};

/// Sets directives chosen by the input to values cut from it. What is accepted must be canonical:
/// setting what is shown changes nothing.
pub fn check_values(data: &[u8]) {
    let mut config = Config::new();
    for line in data.split(|byte| *byte == b'\n') {
        let [choice, value @ ..] = line else { continue };
        let directive = &DIRECTIVES[usize::from(*choice) % DIRECTIVES.len()];
        let name = directive.name.as_bytes();
        if config.set(&[(name, value)], true).is_ok() && directive.name != "dir" {
            let shown = config.bytes(directive.name).to_owned();
            let again = config.set(&[(name, shown.as_slice())], true);
            assert_eq!(again, Ok(()), "{}: {shown:?}", directive.name);
            assert_eq!(config.bytes(directive.name), shown, "{}", directive.name);
        }
    }
    let _ = split_words(data);
}
