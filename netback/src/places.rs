//! The table of connections: places that are reused, with a generation each.

use crate::ConnId;

/// Values by [`ConnId`]. A place goes through vacant, occupied, vacated (its last event has not
/// been delivered yet), vacant.
pub(crate) struct Places<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    /// The id that the next [`Places::occupy`] must use.
    pub(crate) fn next_id(&self) -> ConnId {
        let index = self.free.last().copied().unwrap_or(self.places.len() as u32);
        let generation = self.places.get(index as usize).map_or(0, |place| place.generation);
        ConnId { index, generation }
    }

    /// Puts a value at the id of [`Places::next_id`].
    pub(crate) fn occupy(&mut self, id: ConnId, value: T) {
        debug_assert_eq!(id, self.next_id());
        match self.free.pop() {
            Some(index) => self.places[index as usize].value = Some(value),
            None => self.places.push(Place { generation: id.generation, value: Some(value) }),
        }
    }

    /// The id of the value at an index.
    #[allow(dead_code, reason = "not every backend names places by index")]
    pub(crate) fn id_at(&self, index: u32) -> Option<ConnId> {
        let place = self.places.get(index as usize)?;
        let generation = place.generation;
        place.value.as_ref().map(|_| ConnId { index, generation })
    }

    /// The value of an id.
    pub(crate) fn get(&self, id: ConnId) -> Option<&T> {
        let place = self.places.get(id.index as usize)?;
        place.value.as_ref().filter(|_| place.generation == id.generation)
    }

    /// The value of an id, to be changed.
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let place = self.places.get_mut(id.index as usize)?;
        place.value.as_mut().filter(|_| place.generation == id.generation)
    }

    /// Takes the value out. The place is not reused before [`Places::release`].
    pub(crate) fn vacate(&mut self, id: ConnId) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation == id.generation { place.value.take() } else { None }
    }

    /// Frees a vacated place for reuse.
    pub(crate) fn release(&mut self, id: ConnId) {
        if let Some(place) = self.places.get_mut(id.index as usize)
            && place.generation == id.generation
            && place.value.is_none()
        {
            // epoll's tokens have room for 31 bits of it.
            place.generation = (place.generation + 1) & 0x7fff_ffff;
            self.free.push(id.index);
        }
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.value.as_ref())
    }

    /// The ids of all values.
    #[allow(dead_code, reason = "not every backend ends what is left itself")]
    pub(crate) fn ids(&self) -> Vec<ConnId> {
        (0..self.places.len() as u32).filter_map(|index| self.id_at(index)).collect()
    }

    /// Bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place<T>>() + self.free.capacity() * size_of::<u32>()
    }
}
