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

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl Run for Name {
        type Output = &'static str;

        fn run<B: crate::Backend>(self) -> &'static str {
            B::open().unwrap().name()
        }
    }

    #[test]
    fn the_chosen_backend_runs() {
        for preference in [Preference::Default, Preference::Epoll, Preference::IoUring] {
            if let Ok(choice) = choose(preference) {
                assert_eq!(start(choice.kind, Name), choice.kind.name());
            }
        }
    }

    #[test]
    fn epoll_runs_everywhere() {
        let choice = choose(Preference::Epoll).unwrap();
        assert_eq!((choice.kind, choice.warning), (Kind::Epoll, None));
    }

    #[test]
    fn a_refused_preference_is_a_warning_and_a_refused_demand_an_error() {
        let choice = choose(Preference::Default).unwrap();
        match crate::probe_io_uring() {
            Ok(()) => assert_eq!((choice.kind, choice.warning), (Kind::IoUring, None)),
            Err(reason) => {
                assert_eq!(choice.kind, Kind::Epoll);
                assert_eq!(choose(Preference::IoUring).unwrap_err(), reason);
                let expected = format!("{reason}; running on epoll instead");
                let is_told = choice.warning == crate::PREFERS_IO_URING.then_some(expected);
                assert!(is_told && !reason.contains('\n'));
            }
        }
    }
}
