//! Names with numbers of clients by shard: who of the process subscribes to what, or tracks which
//! prefix.

use std::collections::BTreeMap;

/// Numbers of clients, by shard; none is 0.
pub type ClientsByShard = BTreeMap<u16, usize>;

/// Names that some client has named, in their order.
#[derive(Debug, Default)]
pub struct NamedClients(BTreeMap<Box<[u8]>, ClientsByShard>);

impl NamedClients {
    /// Counts one more client of a shard; returns whether the name is new.
    pub fn add(&mut self, name: &[u8], shard: usize) -> bool {
        let is_new = !self.0.contains_key(name);
        let clients = self.0.entry(name.into()).or_default();
        *clients.entry(shard as u16).or_default() += 1;
        is_new
    }

    /// Counts one client of a shard less; returns whether the name is gone.
    pub fn remove(&mut self, name: &[u8], shard: usize) -> bool {
        let Some(clients) = self.0.get_mut(name) else { return false };
        if let Some(count) = clients.get_mut(&(shard as u16)) {
            *count -= 1;
        }
        clients.retain(|_, count| *count > 0);
        let is_gone = clients.is_empty();
        if is_gone {
            self.0.remove(name);
        }
        is_gone
    }

    /// The clients of a name.
    pub fn get(&self, name: &[u8]) -> Option<&ClientsByShard> {
        self.0.get(name)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names with their clients.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &ClientsByShard)> {
        self.0.iter().map(|(name, clients)| (&**name, clients))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_there_as_long_as_some_client_has_named_it() {
        let mut named = NamedClients::default();
        assert!(named.add(b"a", 0));
        assert!(!named.add(b"a", 3));
        assert!(!named.add(b"a", 3));
        assert_eq!(named.get(b"a"), Some(&ClientsByShard::from([(0, 1), (3, 2)])));
        assert!(!named.remove(b"a", 0) && !named.remove(b"a", 3) && !named.remove(b"b", 0));
        assert_eq!(named.iter().count(), named.len());
        assert!(named.remove(b"a", 3));
        assert!(named.is_empty());
    }
}
