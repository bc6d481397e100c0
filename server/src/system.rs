//! What the operating system tells of the process and the machine, read from `/proc`.
//!
//! All of it but the random bytes is for INFO and MEMORY; where the files are missing the figures
//! are zero.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Ticks of the kernel's clock in a second, the unit of the times in `/proc/self/stat`. Linux
/// shows 100 to programs on every architecture, whatever its own clock does.
const CLOCK_TICKS_PER_S: f64 = 100.0;

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// In the program.
    pub user_s: f64,
    /// In the kernel for the program.
    pub system_s: f64,
    /// In the program's children, once they have ended.
    pub children_user_s: f64,
    /// In the kernel for them.
    pub children_system_s: f64,
}

/// Random bytes, or `None` on a machine without a random device.
pub fn random_bytes<const LEN: usize>() -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    let mut device = fs::File::open("/dev/urandom").ok()?;
    std::io::Read::read_exact(&mut device, &mut bytes).ok()?;
    Some(bytes)
}

/// Memory of the process that lies in RAM, in bytes.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kibibytes(&status, "VmRSS:") * 1024
}

/// The machine's RAM in bytes.
pub fn total_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kibibytes(&text, "MemTotal:") * 1024
}

fn kibibytes(text: &str, label: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(label));
    value.and_then(|value| value.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Processor time of the whole process.
pub fn process_times() -> CpuTimes {
    times(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// Processor time of the calling thread.
pub fn thread_times() -> CpuTimes {
    times(&fs::read_to_string("/proc/thread-self/stat").unwrap_or_default())
}

/// Has the calling thread run on one core only: of those that it may run on, the one in the place
/// `index`, counted round. Returns its number.
///
/// # Errors
/// The kernel's error.
pub fn pin_to_core(index: usize) -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let core = *cores.get(index % cores.len().max(1)).ok_or(io::ErrorKind::NotFound)?;
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)?;
    Ok(core)
}

/// Nanoseconds for which the calling thread waited for a core: the second number of its
/// `schedstat`. 0 where the kernel does not count them.
pub fn run_delay_ns() -> u64 {
    thread_local! {
        // Kept open: reading it again is one system call.
        static FILE: Option<fs::File> = fs::File::open("/proc/thread-self/schedstat").ok();
    }
    let mut text = [0; 64];
    let len = FILE.with(|file| file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()));
    let text = std::str::from_utf8(&text[..len.unwrap_or(0)]).unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Fields 14 to 17. The second one holds the program's name, which may contain anything, so they
/// are counted from its closing parenthesis.
fn times(stat: &str) -> CpuTimes {
    let Some((_, rest)) = stat.rsplit_once(')') else { return CpuTimes::default() };
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || {
        let ticks = fields.next().and_then(|field| field.parse::<f64>().ok());
        ticks.unwrap_or(0.0) / CLOCK_TICKS_PER_S
    };
    CpuTimes {
        user_s: next(),
        system_s: next(),
        children_user_s: next(),
        children_system_s: next(),
    }
}

/// The system's name, its release and the architecture, as INFO shows them.
pub fn name() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let (kind, release) = (read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"));
    format!("{kind} {release} {}", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_pinned_round_the_allowed_cores() {
        let cores = std::thread::available_parallelism().expect("a number").get();
        let pin = |index| std::thread::spawn(move || pin_to_core(index)).join().expect("no panic");
        let first = pin(0).expect("a core");
        assert_eq!(pin(cores).expect("a core"), first);
        assert_eq!(pin(1).expect("a core") == first, cores == 1);
    }

    #[test]
    fn waiting_for_a_core_only_grows() {
        let before = run_delay_ns();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(run_delay_ns() >= before);
        if std::path::Path::new("/proc/thread-self/schedstat").exists() {
            let text = fs::read_to_string("/proc/thread-self/schedstat").expect("readable");
            assert_eq!(text.split_ascii_whitespace().count(), 3, "{text}");
        }
    }

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 1 0 0 0 150 25 3 4 20 0 1 0";
        let expected = CpuTimes {
            user_s: 1.5,
            system_s: 0.25,
            children_user_s: 0.03,
            children_system_s: 0.04,
        };
        assert_eq!(times(stat), expected);
        assert_eq!(times(""), CpuTimes::default());
        assert_eq!(kibibytes("A: 1\nVmRSS:\t  2048 kB\n", "VmRSS:"), 2048);
    }
}
