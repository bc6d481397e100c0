//! `docs/COMMANDS.md`, made from the command table.

use std::fmt::Write;

use super::spec::{CATEGORY_NAMES, FLAG_NAMES, Group, bit_names};
use super::table::{Entry, table};

/// The page about all commands, in Markdown.
pub fn page() -> String {
    let mut text = String::from(
        "# Commands\n\n\
         Made from the command table by `OSMIA_UPDATE=1 cargo test -p server docs`; a test refuses a \
         stale page. Arity counts the name; a negative one is a minimum. Replies, options and error \
         texts are those of Redis 8.2, save what [DIFFERENCES.md](DIFFERENCES.md) lists.\n",
    );
    for group in Group::ALL {
        add_group(&mut text, group);
    }
    text
}

fn add_group(text: &mut String, group: Group) {
    let mut entries: Vec<&Entry> =
        table().entries().iter().filter(|entry| entry.command.group == group).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    // Writing to a `String` cannot fail.
    let _ = write!(
        text,
        "\n## {}\n\n| command | arity | since | cost | flags | categories | |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        title(group)
    );
    for entry in entries {
        let command = entry.command;
        let flags: Vec<&str> = bit_names(command.flags, FLAG_NAMES).collect();
        let categories: Vec<&str> = bit_names(command.all_categories(), CATEGORY_NAMES).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            entry.name.to_uppercase().replace('|', " "),
            command.arity,
            command.since,
            command.complexity,
            flags.join(" "),
            categories.join(" "),
            command.summary
        );
    }
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Generic => "Keys of any type",
        Group::String => "Strings",
        Group::Bitmap => "Bitmaps",
        Group::HyperLogLog => "HyperLogLogs",
        Group::List => "Lists",
        Group::Set => "Sets",
        Group::Hash => "Hashes",
        Group::SortedSet => "Sorted sets",
        Group::Geo => "Places on the earth",
        Group::Stream => "Streams",
        Group::Connection => "Connection",
        Group::Server => "Server",
        Group::Transactions => "Transactions",
        Group::Cluster => "Cluster",
        Group::PubSub => "Publishing and subscribing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_page_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/COMMANDS.md");
        if std::env::var_os("OSMIA_UPDATE").is_some() {
            std::fs::write(&path, page()).expect("a page that can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == page(),
            "docs/COMMANDS.md is stale: run OSMIA_UPDATE=1 cargo test -p server docs"
        );
    }
}
