//! Bounded queues between threads.
//!
//! A queue belongs to the thread that receives from it. Senders hand over a batch under one lock and wake the receiver only
//! if it is waiting in its [`Io`], so that a busy thread costs its senders no system call.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sluice_io::{Io, Wake};

/// What counts against the capacity of a queue.
pub(crate) trait Weigh {
    /// Number of messages or facts in this item, at least 1.
    fn weight(&self) -> usize;
}

/// What sender and receiver share.
struct Shared<T> {
    items: Mutex<VecDeque<T>>,
    /// Weight of `items`. Written under the lock.
    weight: AtomicUsize,
    /// The receiver waits, or is about to, and must be woken.
    is_receiver_waiting: AtomicBool,
    /// The thread of the receiver has ended. Written under the lock.
    is_closed: AtomicBool,
    capacity: usize,
}

/// The sending end of a thread's queue.
pub(crate) struct Sender<T, W> {
    shared: Arc<Shared<T>>,
    waker: W,
}

/// The receiving end of a thread's queue.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// A queue of the thread that `waker` wakes, for items of about `capacity` in weight. When the receiver is dropped, so are
/// the items in the queue, and all that are sent later.
pub(crate) fn queue<T: Weigh, W: Wake>(capacity: usize, waker: W) -> (Sender<T, W>, Receiver<T>) {
    let shared = Arc::new(Shared {
        items: Mutex::default(),
        weight: AtomicUsize::new(0),
        is_receiver_waiting: AtomicBool::new(false),
        is_closed: AtomicBool::new(false),
        capacity,
    });
    (Sender { shared: shared.clone(), waker }, Receiver { shared })
}

/// Why an item was not sent.
pub(crate) enum TrySendError<T> {
    /// The queue is too full.
    Full(T),
    /// The thread of the receiver has ended.
    Closed(T),
}

impl<T, W> fmt::Debug for Sender<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("weight", &self.shared.weight).finish_non_exhaustive()
    }
}

impl<T, W: Clone> Clone for Sender<T, W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), waker: self.waker.clone() }
    }
}

impl<T: Weigh, W: Wake> Sender<T, W> {
    /// Sends an item even if the queue is full: for items of which there are few, such as one for each switch that connects.
    pub(crate) fn send(&self, item: T) {
        self.push(|items, _| {
            let weight = item.weight();
            items.push_back(item);
            weight
        });
    }

    /// Sends an item of a thread that has no outbox, if a quarter of the capacity is used at most: the rest is for threads of the
    /// engine, which must not be slowed down by others.
    ///
    /// # Errors
    /// The item, if there is no room or the thread of the receiver has ended.
    pub(crate) fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let mut refused = None;
        self.push(|items, is_closed| {
            let weight = item.weight();
            if is_closed {
                refused = Some(TrySendError::Closed(item));
            } else if self.shared.weight.load(Relaxed) > self.shared.capacity / 4 {
                refused = Some(TrySendError::Full(item));
            } else {
                items.push_back(item);
                return weight;
            }
            0
        });
        refused.map_or(Ok(()), Err)
    }

    /// Whether the receiver waits: a hint, since it may begin to wait at any moment.
    pub(crate) fn is_receiver_waiting(&self) -> bool {
        self.shared.is_receiver_waiting.load(Relaxed)
    }

    /// Sends items from the front of `outbox` until the queue is full. The last one may exceed the capacity.
    ///
    /// # Cost
    /// One lock, and a system call if the receiver waits; nothing if `outbox` is empty.
    pub(crate) fn send_batch(&self, outbox: &mut VecDeque<T>) {
        if outbox.is_empty() {
            return;
        }
        let room = |sent: usize| self.shared.weight.load(Relaxed) + sent < self.shared.capacity;
        self.push(|items, _| {
            let mut sent = 0;
            while room(sent)
                && let Some(item) = outbox.pop_front()
            {
                sent += item.weight();
                items.push_back(item);
            }
            sent
        });
    }

    /// Has `add` append items and return their weight; wakes the receiver if there are any. If the thread of the receiver has
    /// ended, which `add` is told, they are dropped.
    fn push(&self, add: impl FnOnce(&mut VecDeque<T>, bool) -> usize) {
        let mut items = self.shared.items.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.is_closed.load(Relaxed) {
            drop(items);
            add(&mut VecDeque::new(), true);
            return;
        }
        let added = add(&mut items, false);
        let weight = self.shared.weight.load(Relaxed) + added;
        self.shared.weight.store(weight, Relaxed);
        drop(items);
        // Pairs with the fence in `Receiver::wait`: either the receiver sees the items, or this thread sees that it waits.
        fence(SeqCst);
        let is_waiting = &self.shared.is_receiver_waiting;
        if added > 0 && is_waiting.load(Relaxed) && is_waiting.swap(false, Relaxed) {
            self.waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for events of `io` until `deadline` like [`Io::wait`], but does not block if items are in the queue. `now` is
    /// any time that has passed.
    pub(crate) fn wait<I: Io>(
        &self,
        io: &mut I,
        now: Instant,
        deadline: Option<Instant>,
    ) -> io::Result<Instant> {
        self.while_waiting(now, deadline, |deadline| io.wait(deadline))
    }

    /// Waits for items until `deadline`, and leaves the connections of `io` alone.
    pub(crate) fn wait_for_items<I: Io>(
        &self,
        io: &mut I,
        now: Instant,
        deadline: Instant,
    ) -> io::Result<Instant> {
        self.while_waiting(now, deadline, |deadline| io.wait_for_wake(deadline))
    }

    fn while_waiting<D: From<Instant>>(
        &self,
        now: Instant,
        deadline: D,
        wait: impl FnOnce(D) -> io::Result<Instant>,
    ) -> io::Result<Instant> {
        let is_receiver_waiting = &self.shared.is_receiver_waiting;
        is_receiver_waiting.store(true, Relaxed);
        // Pairs with the fence in `Sender::push`.
        fence(SeqCst);
        let result = wait(if self.has_items() { now.into() } else { deadline });
        is_receiver_waiting.store(false, Relaxed);
        result
    }

    /// Whether there are items in the queue.
    pub(crate) fn has_items(&self) -> bool {
        self.shared.weight.load(Relaxed) > 0
    }

    /// Moves all items of the queue to the end of `items`.
    ///
    /// # Cost
    /// One lock; nothing if there are none.
    pub(crate) fn take(&self, items: &mut VecDeque<T>) {
        if self.has_items() {
            let mut queued = self.shared.items.lock().unwrap_or_else(PoisonError::into_inner);
            if items.is_empty() {
                std::mem::swap(&mut *queued, items);
            } else {
                items.append(&mut queued);
            }
            self.shared.weight.store(0, Relaxed);
        }
    }
}

/// A thread that waits for the answer to a message is notified that there will be none, and no sender waits for room.
impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut items = self.shared.items.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.is_closed.store(true, Relaxed);
        self.shared.weight.store(0, Relaxed);
        let items = std::mem::take(&mut *items);
        drop(items);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use sluice_io::{Epoll, IoEvent, WaitStrategy, clock};

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct CountingWaker(Arc<AtomicU32>);

    impl Wake for CountingWaker {
        fn wake(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    impl Weigh for u32 {
        fn weight(&self) -> usize {
            1
        }
    }

    fn take(receiver: &Receiver<u32>) -> Vec<u32> {
        let mut items = VecDeque::new();
        receiver.take(&mut items);
        items.into()
    }

    #[test]
    fn a_batch_is_sent_up_to_the_capacity_and_the_rest_stays_with_the_sender() {
        let (sender, receiver) = queue(3, CountingWaker::default());
        let mut outbox: VecDeque<u32> = (0..5).collect();
        sender.send_batch(&mut outbox);
        assert_eq!(outbox, [3, 4]);
        sender.send(9);
        sender.send_batch(&mut outbox);
        assert_eq!((take(&receiver), outbox.len()), (vec![0, 1, 2, 9], 2));
        sender.send_batch(&mut outbox);
        assert_eq!((take(&receiver), outbox.len()), (vec![3, 4], 0));
        assert_eq!(take(&receiver), []);
    }

    #[test]
    fn a_thread_of_others_may_use_a_quarter_of_a_queue() {
        let (sender, receiver) = queue(8, CountingWaker::default());
        let tries = |sender: &Sender<u32, _>| (0..9).map_while(|n| sender.try_send(n).ok()).count();
        assert_eq!(tries(&sender), 3, "the last one may exceed it");
        assert!(matches!(sender.try_send(7), Err(TrySendError::Full(7))));
        assert_eq!(take(&receiver), [0, 1, 2]);
        drop(receiver);
        assert!(matches!(sender.try_send(7), Err(TrySendError::Closed(7))));
    }

    impl Weigh for Arc<()> {
        fn weight(&self) -> usize {
            1
        }
    }

    #[test]
    fn items_for_a_thread_that_has_ended_are_dropped_and_fill_no_queue() {
        let (item, waker) = (Arc::new(()), CountingWaker::default());
        let (sender, receiver) = queue(3, waker.clone());
        sender.send(item.clone());
        drop(receiver);
        for _ in 0..9 {
            sender.send(item.clone());
        }
        let mut outbox: VecDeque<_> = (0..9).map(|_| item.clone()).collect();
        for _ in 0..3 {
            sender.send_batch(&mut outbox);
        }
        assert_eq!((outbox.len(), Arc::strong_count(&item)), (0, 1));
        assert_eq!(waker.0.load(Relaxed), 0);
    }

    #[test]
    fn a_receiver_is_woken_once_per_wait_and_only_while_it_waits() {
        let waker = CountingWaker::default();
        let (sender, receiver) = queue(10, waker.clone());
        sender.send(1);
        assert_eq!(waker.0.load(Relaxed), 0, "the receiver is busy");
        take(&receiver);
        let (now, later) = (clock::now(), clock::now() + Duration::from_secs(60));
        let until = receiver.while_waiting(now, later, |deadline| {
            sender.send(1);
            sender.send_batch(&mut (2..5).collect());
            Ok(deadline)
        });
        assert_eq!((until.unwrap(), waker.0.load(Relaxed)), (later, 1));
        let until = receiver.while_waiting(now, later, Ok);
        assert_eq!(until.unwrap(), now, "there are items, so it must not block");
    }

    /// The order of the accesses to the two flags decides this: a lost wake-up blocks for a minute.
    #[test]
    fn no_wake_up_is_lost_between_two_threads() {
        const ITEMS: u32 = 100_000;
        let mut io = Epoll::new(WaitStrategy::default()).unwrap();
        let (sender, receiver) = queue(7, io.waker());
        let start = clock::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut outbox, mut next) = (VecDeque::new(), 0..ITEMS);
                while !next.is_empty() || !outbox.is_empty() {
                    outbox.extend(next.by_ref().take(3));
                    sender.send_batch(&mut outbox);
                }
            });
            let mut items = VecDeque::new();
            while items.len() < ITEMS as usize {
                let deadline = start + Duration::from_secs(60);
                let now = receiver.wait(&mut io, start, Some(deadline)).unwrap();
                assert!(now < deadline, "{} of {ITEMS} received", items.len());
                while let Some(event) = io.next_event() {
                    assert!(matches!(event, IoEvent::Woken));
                }
                receiver.take(&mut items);
            }
            assert!(items.iter().copied().eq(0..ITEMS));
        });
    }
}
