//! Who has a connection, and who gives it up for a newcomer.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// A number of places. A clone has the same ones.
///
/// A newcomer always gets one. When all are taken, the one that came first among those who have yet to send a whole
/// head makes room; but if those who have sent one hold more than half of the places, the one of them that did so
/// longest ago. So neither whoever is slow to ask nor whoever has asked and stays keeps anybody out.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// In the order in which they came, or last sent a head.
    all: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    has_asked: bool,
    /// Dropped to close the connection.
    _open: oneshot::Sender<()>,
}

/// One of the places, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    number: u64,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// A place, and what ends when somebody else has got it.
    pub(crate) fn take(&self) -> (Place, oneshot::Receiver<()>) {
        let (open, closed) = oneshot::channel();
        let number = self.with(|taken| {
            if taken.all.len() >= self.max {
                let asked = taken.all.iter().filter(|entry| entry.has_asked).count();
                let has_asked = asked > self.max / 2;
                let oldest = taken.all.iter().position(|entry| entry.has_asked == has_asked);
                taken.all.remove(oldest.unwrap_or(0));
            }
            taken.next += 1;
            taken.all.push(Entry { number: taken.next, has_asked: false, _open: open });
            taken.next
        });
        (Place { places: self.clone(), number }, closed)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Taken) -> T) -> T {
        f(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Place {
    /// Notes that a whole head came.
    pub(crate) fn asked(&self) {
        self.places.with(|taken| {
            if let Some(at) = taken.all.iter().position(|entry| entry.number == self.number) {
                let entry = taken.all.remove(at);
                taken.all.push(Entry { has_asked: true, ..entry });
            }
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.with(|taken| taken.all.retain(|entry| entry.number != self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(closed: &mut oneshot::Receiver<()>) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_of_those_with_more_than_half_makes_room() {
        let places = Places::new(4);
        let mut all: Vec<_> = (0..4).map(|_| places.take()).collect();
        let open = |all: &mut Vec<(Place, oneshot::Receiver<()>)>| {
            all.push(places.take());
            let open = (0..).zip(all).filter_map(|(n, (_, closed))| is_open(closed).then_some(n));
            open.collect::<Vec<_>>()
        };
        all[0].0.asked();
        assert_eq!(open(&mut all), [0, 2, 3, 4]);
        all[3].0.asked();
        all[2].0.asked();
        all[0].0.asked();
        assert_eq!(open(&mut all), [0, 2, 4, 5], "3 asked first, or has not since");
        assert_eq!(open(&mut all), [0, 2, 5, 6]);
    }

    #[test]
    fn who_leaves_gives_the_place_back() {
        let places = Places::new(1);
        let (first, mut closed) = places.take();
        drop(first);
        assert!(!is_open(&mut closed));
        let (_second, mut closed) = places.take();
        assert!(is_open(&mut closed));
        assert_eq!(places.with(|taken| taken.all.len()), 1);
    }
}
