//! Keyspace notifications: the effects of commands as messages in channels.
//!
//! `notify-keyspace-events` picks classes of events by letters; `K` and `E` pick the channels
//! `__keyspace@<db>__:<key>`, whose messages are events, and `__keyevent@<db>__:<event>`, whose
//! messages are keys. Names of events are Redis's.

use engine::{DeleteCause, Effect, Origin};

use crate::pubsub::Kind;
use crate::state::ShardState;

/// Letters of the classes that `A` stands for.
const ALL: &str = "g$lshzxetd";

/// Classes of events, as bits by letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u128);

impl Classes {
    /// The classes that the letters of `notify-keyspace-events` name.
    pub fn from_letters(letters: &str) -> Self {
        letters.bytes().fold(Self::default(), |classes, letter| match letter {
            b'A' => ALL.bytes().fold(classes, Self::with),
            letter => classes.with(letter),
        })
    }

    fn with(self, letter: u8) -> Self {
        Self(self.0 | 1 << letter)
    }

    fn has(self, letter: u8) -> bool {
        self.0 >> letter & 1 == 1
    }

    /// Whether any event is published.
    pub fn any(self) -> bool {
        self.has(b'K') || self.has(b'E')
    }

    /// Whether notes beside the effects are needed: keys that were made, or that a read missed.
    pub fn need_notes(self) -> bool {
        self.any() && (self.has(b'n') || self.has(b'm'))
    }
}

/// One event: its class, its name, its database and key.
type Event<'a> = (u8, &'static str, u32, &'a [u8]);

/// The events of an effect, in their order.
fn each_event<'a>(effect: &Effect<'a>, mut f: impl FnMut(Event<'a>)) {
    match *effect {
        Effect::Set { db, key, expire_at, existed, keeps_expire, .. } => {
            if existed {
                f((b'o', "overwritten", db, key));
            }
            f((b'$', "set", db, key));
            if expire_at.is_some() && !keeps_expire {
                f((b'g', "expire", db, key));
            }
        }
        Effect::IncrBy { db, key, .. } => f((b'$', "incrby", db, key)),
        Effect::IncrByFloat { db, key, .. } => f((b'$', "incrbyfloat", db, key)),
        Effect::Append { db, key, .. } => f((b'$', "append", db, key)),
        Effect::SetRange { db, key, .. } => f((b'$', "setrange", db, key)),
        Effect::SetBit { db, key, .. } | Effect::BitField { db, key, .. } => {
            f((b'$', "setbit", db, key));
        }
        Effect::HyperLogLogRaise { db, key, .. }
        | Effect::HyperLogLogRewrite { db, key, added: true, .. } => f((b'$', "pfadd", db, key)),
        Effect::HyperLogLogCount { .. } | Effect::HyperLogLogRewrite { .. } => {}
        Effect::Expire { db, key, .. } => f((b'g', "expire", db, key)),
        Effect::Persist { db, key } => f((b'g', "persist", db, key)),
        Effect::Delete { db, key, cause } => match cause {
            DeleteCause::Command => f((b'g', "del", db, key)),
            DeleteCause::Expired => f((b'x', "expired", db, key)),
            DeleteCause::Evicted => f((b'e', "evicted", db, key)),
            DeleteCause::Renamed => f((b'g', "rename_from", db, key)),
            // Tools of a cluster see to it that nobody misses the key.
            DeleteCause::Moved => {}
        },
        Effect::Rename { db, from, to, .. } => {
            f((b'g', "rename_from", db, from));
            f((b'g', "rename_to", db, to));
        }
        Effect::Copy { to_db, to, .. } => f((b'g', "copy_to", to_db, to)),
        Effect::Place { db, key, origin, .. } => match origin {
            Origin::Rename => f((b'g', "rename_to", db, key)),
            Origin::Copy => f((b'g', "copy_to", db, key)),
            Origin::Restore => f((b'g', "restore", db, key)),
            Origin::Command(event) => f((event.class(), event.name(), db, key)),
        },
        Effect::Change { db, key, event, .. } => f((event.class(), event.name(), db, key)),
        Effect::Move { db, key, to_db } => {
            f((b'g', "move_from", db, key));
            f((b'g', "move_to", to_db, key));
        }
        Effect::Created { db, key } => f((b'n', "new", db, key)),
        Effect::Missed { db, key } => f((b'm', "keymiss", db, key)),
        Effect::FlushDb { .. } | Effect::FlushAll | Effect::SwapDb { .. } => {}
    }
}

impl ShardState {
    /// Publishes the events of an effect that the configuration asks for.
    pub fn notify(&mut self, effect: &Effect<'_>) {
        let classes = self.hot.events;
        each_event(effect, |(class, event, db, key)| {
            if !classes.has(class) {
                return;
            }
            if classes.has(b'K') {
                let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
                self.publish(Kind::Channel, &channel, event.as_bytes());
            }
            if classes.has(b'E') {
                let channel = format!("__keyevent@{db}__:{event}");
                self.publish(Kind::Channel, channel.as_bytes(), key);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_told_apart() {
        let letters = b"g$lshzxetdmnocKE";
        for letter in letters {
            let classes = Classes::default().with(*letter);
            assert!(letters.iter().all(|other| classes.has(*other) == (other == letter)));
        }
        let all = Classes::from_letters("AE");
        assert!(all.any() && all.has(b'$') && !all.has(b'm') && !all.has(b'K'));
        assert!(!Classes::from_letters("A").any());
        assert!(Classes::from_letters("Km").need_notes());
    }

    #[test]
    fn a_set_is_told_with_its_time() {
        let mut names = Vec::new();
        let set = Effect::Set {
            db: 0,
            key: b"k",
            value: b"v",
            expire_at: Some(5),
            existed: true,
            keeps_expire: false,
        };
        each_event(&set, |(_, name, ..)| names.push(name));
        assert_eq!(names, ["overwritten", "set", "expire"]);
    }
}
