//! The choice of a backend: by preference among those compiled in, by what the kernel allows.

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The preferred backend of this build that works.
    Default,
    /// epoll.
    Epoll,
    /// io_uring and nothing else.
    IoUring,
}

/// A backend that is compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`crate::epoll`].
    Epoll,
    /// [`crate::uring`].
    IoUring,
}

impl Kind {
    /// The name that INFO shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// The backend that will run.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which one.
    pub kind: Kind,
    /// Why it is not the preferred one: one line with cause and cure.
    pub warning: Option<String>,
}

/// Chooses a backend.
///
/// # Errors
/// One line with cause and cure, where the demanded backend cannot run.
pub fn choose(preference: Preference) -> Result<Choice, String> {
    match preference {
        Preference::Epoll => Ok(Choice { kind: Kind::Epoll, warning: None }),
        Preference::IoUring => {
            crate::probe_io_uring()?;
            Ok(Choice { kind: Kind::IoUring, warning: None })
        }
        Preference::Default if crate::PREFERS_IO_URING => match crate::probe_io_uring() {
            Ok(()) => Ok(Choice { kind: Kind::IoUring, warning: None }),
            Err(reason) => Ok(Choice {
                kind: Kind::Epoll,
                warning: Some(format!("{reason}; running on epoll instead")),
            }),
        },
        Preference::Default => Ok(Choice { kind: Kind::Epoll, warning: None }),
    }
}

/// Code that is generic over the backend.
pub trait Run {
    /// What it returns.
    type Output;

    /// Runs on a backend type; [`crate::Backend::open`] makes one for each thread.
    fn run<B: crate::Backend>(self) -> Self::Output;
}

/// Runs `run` on the backend of `kind`, which [`choose`] has returned.
pub fn start<R: Run>(kind: Kind, run: R) -> R::Output {
    match kind {
        Kind::Epoll => run.run::<crate::epoll::Epoll>(),
        Kind::IoUring => run.run::<crate::Preferred>(),
    }
}
