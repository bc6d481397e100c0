//! What the kernel knows: CPU time and memory of a process, affinity, the machine itself.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::{Error, Result};

/// CPU time of each thread of a process, in nanoseconds, by thread id.
///
/// `stat` counts in ticks of 10 ms; `schedstat` has the scheduler's own sum. A running thread's
/// sum is brought up to date at the next timer tick, so read it while the server is idle.
pub fn cpu_ns(pid: u32) -> HashMap<u32, u64> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let mut threads = HashMap::new();
    for task in tasks.flatten() {
        let id = task.file_name().to_string_lossy().parse();
        let stat = fs::read_to_string(task.path().join("schedstat"));
        if let (Ok(id), Ok(stat)) = (id, stat) {
            let ran = stat.split(' ').next().and_then(|field| field.parse().ok());
            threads.insert(id, ran.unwrap_or(0));
        }
    }
    threads
}

/// CPU time between two looks, in nanoseconds. Threads that ended in between are not counted.
pub fn cpu_ns_between(before: &HashMap<u32, u64>, after: &HashMap<u32, u64>) -> u64 {
    let since = |(id, ran): (&u32, &u64)| ran.saturating_sub(before.get(id).copied().unwrap_or(0));
    after.iter().map(since).sum()
}

/// CPU time of a process over all its threads, those that ended among them, in nanoseconds.
///
/// User and system time of `stat`, which counts in ticks of 10 ms: for loads of a second and more.
/// 0 if the process has ended.
pub fn process_cpu_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = cpu_ticks(&text).unwrap_or(0);
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Fields 14 and 15 of `stat`. The second is the program's name, which may have anything in it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory of a process, in bytes; `None` if it has ended.
///
/// The kernel keeps the figure of `status` in per-core counters and may be off by hundreds of
/// KiB; `smaps_rollup` counts pages.
pub fn rss_bytes(pid: u32) -> Option<u64> {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    field("smaps_rollup", "Rss:").or_else(|| field("status", "VmRSS:"))
}

/// The cores that the calling thread may run on, in order.
pub fn allowed_cores() -> Vec<usize> {
    sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
    )
}

/// Lets the calling thread, and what it starts later, run on this core alone.
///
/// # Errors
/// The kernel's error.
pub fn pin(core: usize) -> Result<()> {
    pin_to(&[core])
}

/// Lets the calling thread, and what it starts later, run on these cores alone.
///
/// # Errors
/// The kernel's error.
pub fn pin_to(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set)
        .map_err(|error| Error::Io(format!("run on cores {cores:?}"), error.into()))
}

/// The machine that measured, for records.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Threads that wanted to run, on average over 1, 5 and 15 minutes. Above 2 or so others
    /// were at work too: compare servers within such a record, not with other records.
    pub load_average: String,
}

/// Looks at the machine.
pub fn machine() -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |path: &str, name: &str| {
        let file = text(path);
        let line = file.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let memory_kib: u64 = field("/proc/meminfo", "MemTotal")
        .split(' ')
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    Machine {
        cpu: field("/proc/cpuinfo", "model name"),
        cores: text("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count(),
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        memory_bytes: memory_kib * 1024,
        load_average: text("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
    }
}

/// First line that a program prints, empty if it cannot be run.
pub fn first_line_of(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return String::new() };
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_this_process() {
        let pid = std::process::id();
        assert!(rss_bytes(pid).is_some_and(|bytes| bytes > 100_000));
        let before = cpu_ns(pid);
        assert!(!before.is_empty());
        assert!(!allowed_cores().is_empty());
        assert!(!machine().kernel.is_empty() && machine().cores > 0);
        assert_eq!(rss_bytes(u32::MAX), None);
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 915 0 0 0 120 34 9 9 30 10 5 0 190";
        assert_eq!(cpu_ticks(stat), Some(154));
        assert_eq!(cpu_ticks(""), None);
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
        assert_eq!(process_cpu_ns(u32::MAX), 0);
    }

    #[test]
    fn cpu_time_is_summed_over_threads() {
        let before = HashMap::from([(1, 100), (2, 50)]);
        let after = HashMap::from([(1, 150), (3, 7)]);
        assert_eq!(cpu_ns_between(&before, &after), 57);
    }
}
