//! A table whose slots are reused, under ids that are not.

use crate::ConnId;

/// A table of `T` by [`ConnId`].
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> ConnId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 1, value: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let generation = self.slots.get_mut(index as usize).map_or(0, |slot| {
            slot.value = Some(value);
            slot.generation
        });
        ConnId(u64::from(generation) << 32 | u64::from(index))
    }

    pub(crate) fn remove(&mut self, id: ConnId) -> Option<T> {
        let slot = self.slots.get_mut(id.slot())?;
        if u64::from(slot.generation) != id.0 >> 32 {
            return None;
        }
        let value = slot.value.take()?;
        // Never 0, so that the default id is none.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        self.free.push(u32::try_from(id.slot()).unwrap_or(u32::MAX));
        Some(value)
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&T> {
        let slot = self.slots.get(id.slot())?;
        if u64::from(slot.generation) == id.0 >> 32 { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot())?;
        if u64::from(slot.generation) == id.0 >> 32 { slot.value.as_mut() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_id_is_none() {
        let mut slots = Slab::new();
        for _ in 0..3 {
            let id = slots.insert('a');
            assert_ne!(id, ConnId::default());
            assert_eq!(slots.get_mut(ConnId::default()), None);
            slots.remove(id);
        }
        let id = slots.insert('b');
        slots.slots[0].generation = u32::MAX;
        assert_eq!(slots.remove(ConnId(u64::from(u32::MAX) << 32)), Some('b'));
        assert_eq!((slots.insert('c').0 >> 32, id.slot()), (1, 0));
    }

    #[test]
    fn a_reused_slot_has_another_id() {
        let mut slots = Slab::new();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!(first.slot(), second.slot());
        assert!(slots.get_mut(first).is_none());
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut 'b'));
    }
}
