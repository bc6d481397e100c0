//! The clients of a shard, by the places of their connections.

use netback::ConnId;

use super::Client;

/// The clients of a shard, by the index of their connection.
#[derive(Debug, Default)]
pub struct Clients {
    places: Vec<Option<Box<Client>>>,
    len: usize,
}

impl Clients {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a client at its connection's index.
    pub fn insert(&mut self, client: Box<Client>) {
        let index = client.conn.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        let previous = self.places[index].replace(client);
        debug_assert!(previous.is_none(), "one client a connection");
        self.len += 1;
    }

    /// Takes a client out; [`Clients::insert`] puts it back.
    #[inline]
    pub fn take(&mut self, conn: ConnId) -> Option<Box<Client>> {
        let place = self.places.get_mut(conn.index as usize)?;
        let client = place.take_if(|client| client.conn == conn)?;
        self.len -= 1;
        Some(client)
    }

    /// A client by its connection.
    pub fn get(&self, conn: ConnId) -> Option<&Client> {
        let place = self.places.get(conn.index as usize)?;
        place.as_deref().filter(|client| client.conn == conn)
    }

    /// A client by its connection, to be changed.
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Client> {
        let place = self.places.get_mut(conn.index as usize)?;
        place.as_deref_mut().filter(|client| client.conn == conn)
    }

    /// All clients, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.places.iter().filter_map(Option::as_deref)
    }

    /// All clients, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_connection_id_finds_nobody() {
        let mut clients = Clients::default();
        let old = ConnId { index: 3, generation: 1 };
        let new = ConnId { index: 3, generation: 2 };
        clients.insert(Box::new(Client::new(7, new, 0)));
        assert!(clients.take(old).is_none());
        assert!(clients.get_mut(old).is_none());
        assert_eq!(clients.take(new).expect("the client").id, 7);
        assert!(clients.is_empty());
    }
}
