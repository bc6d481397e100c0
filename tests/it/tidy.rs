//! Checks of the source tree itself: what no compiler looks at and reviews should not have to.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// All files of the tree with one of the endings, build output left out.
fn files(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", ".git", "artifacts", "corpus"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = std::fs::read_to_string(&path).expect("a text file");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn rust_files_begin_with_what_they_are() {
    for (path, text) in files(&[".rs"]) {
        let first = text.lines().next().unwrap_or_default();
        let is_target = text.starts_with("#![no_main]");
        assert!(first.starts_with("//! ") || is_target, "{}: {first}", path.display());
    }
}

#[test]
fn no_marks_of_unfinished_work() {
    let marks = [["FIX", "ME"].concat(), ["XXX", ":"].concat(), ["todo", "!("].concat()];
    for (path, text) in files(&[".rs", ".md", ".toml"]) {
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{}: {mark}", path.display());
        }
    }
}

/// The order in a hash map of the standard library differs from run to run, which would break the
/// replay of a simulation.
#[test]
fn what_is_simulated_has_one_order() {
    let word = ["Hash", "Map"].concat();
    for (path, text) in files(&[".rs"]) {
        let name = path.strip_prefix(root()).expect("a path of the tree").display().to_string();
        let is_simulated = ["engine/src/", "netback/src/", "server/src/"]
            .iter()
            .any(|folder| name.starts_with(folder) && !name.ends_with("tests.rs"));
        assert!(!is_simulated || !text.contains(&word), "{name}");
    }
}

#[test]
fn unsafe_code_stays_behind_its_fences() {
    let fences = [
        "engine/src/arena.rs",
        "engine/src/arena/",
        "engine/src/slab.rs",
        "netback/src/uring.rs",
        "netback/src/uring/",
        "server/src/clock.rs",
    ];
    let word = ["unsafe", " {"].concat();
    for (path, text) in files(&[".rs"]) {
        let name = path.strip_prefix(root()).expect("a path of the tree").display().to_string();
        let fenced = fences.iter().any(|fence| name.starts_with(fence));
        assert!(fenced || !text.contains(&word), "{name}");
    }
}

#[test]
fn features_are_looked_at_in_one_place() {
    let word = ["cfg(", "feature"].concat();
    for (path, text) in files(&[".rs"]) {
        let allowed = path.ends_with("netback/src/lib.rs");
        assert!(allowed || !text.contains(&word), "{}", path.display());
    }
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let allowed: &[(&str, &[&str])] = &[
        ("encodings", &[]),
        ("netback", &[]),
        ("engine", &["encodings"]),
        ("server", &["encodings", "engine", "netback"]),
        ("tests", &["encodings", "engine", "netback", "server"]),
        ("benchmark", &["encodings", "engine", "netback", "server"]),
    ];
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("JSON of cargo metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
    assert_eq!(packages.len(), names.len());
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let (_, may_use) = allowed.iter().find(|(crate_name, _)| *crate_name == name).expect(name);
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            let is_ours = names.contains(&used);
            assert!(!is_ours || may_use.contains(&used), "{name} must not use {used}");
        }
    }
}
