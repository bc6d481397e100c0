//! Whether this kernel lets the io_uring backend run, and if not, why and what helps.

use std::io;

use io_uring::{Probe, opcode};

use super::buffers::Buffers;
use super::ring::Ring;

/// The oldest kernel that has all that is used.
const KERNEL: &str = "Linux 6.0";

/// Says why io_uring cannot run: one line with cause and cure.
///
/// # Errors
/// That line.
pub fn probe() -> Result<(), String> {
    let ring = Ring::open().map_err(|error| explain(&error))?;
    // Keep the order: the ring goes before the buffers.
    let buffers = Buffers::open(&ring).map_err(|error| explain(&error))?;
    let missing = missing_operations(&ring);
    drop(ring);
    drop(buffers);
    missing
}

fn missing_operations(ring: &Ring) -> Result<(), String> {
    let mut probe = Probe::new();
    let registered = ring.uring().submitter().register_probe(&mut probe);
    registered.map_err(|error| explain(&error))?;
    let needed = [
        ("ACCEPT", opcode::AcceptMulti::CODE),
        ("RECV", opcode::RecvMulti::CODE),
        ("SEND", opcode::Send::CODE),
        ("SENDMSG", opcode::SendMsg::CODE),
        ("POLL_ADD", opcode::PollAdd::CODE),
        ("ASYNC_CANCEL", opcode::AsyncCancel2::CODE),
        ("OPENAT", opcode::OpenAt::CODE),
        ("READ", opcode::Read::CODE),
        ("WRITE", opcode::Write::CODE),
        ("FSYNC", opcode::Fsync::CODE),
        ("RENAMEAT", opcode::RenameAt::CODE),
        ("UNLINKAT", opcode::UnlinkAt::CODE),
        ("MKDIRAT", opcode::MkDirAt::CODE),
    ];
    match needed.iter().find(|(_, code)| !probe.is_supported(*code)) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "io_uring lacks the operation {name} on this kernel; {KERNEL} or newer has it"
        )),
    }
}

fn explain(error: &io::Error) -> String {
    let cure = match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            format!("the kernel has none; boot {KERNEL} or newer, built with CONFIG_IO_URING")
        }
        Some(libc::EPERM | libc::EACCES) => "it is forbidden here; set the sysctl \
            kernel.io_uring_disabled to 0, and in a container allow io_uring_setup, \
            io_uring_enter and io_uring_register in its seccomp profile"
            .to_owned(),
        Some(libc::EINVAL) => format!("the kernel is too old; boot {KERNEL} or newer"),
        Some(libc::ENOMEM) => {
            "memory for its queues was refused; raise the limit of locked memory (ulimit -l)"
                .to_owned()
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "no file descriptor is free; raise the limit (ulimit -n)".to_owned()
        }
        _ => "see the kernel's log".to_owned(),
    };
    format!("io_uring cannot be used ({error}): {cure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_cause_and_cure() {
        let check = |number: i32, cure: &str| {
            let text = explain(&io::Error::from_raw_os_error(number));
            assert!(text.contains(cure) && !text.contains('\n'), "{text}");
        };
        check(libc::ENOSYS, "boot Linux 6.0");
        check(libc::EPERM, "kernel.io_uring_disabled");
        check(libc::EPERM, "seccomp");
        check(libc::EINVAL, "too old");
        check(libc::ENOMEM, "ulimit -l");
        check(libc::EMFILE, "ulimit -n");
    }
}
