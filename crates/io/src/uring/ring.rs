//! The ring: requests to the kernel, and their completions.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::squeue::{self, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::buffers::{
    RECEIVE_BUFFERS, ReceiveBuffers, ReceivedBuffer, SEND_BUFFERS, SendBuffer, SendBuffers,
};
use super::error::UringError;
use crate::ConnId;

/// Requests that can wait to be submitted; for one more, all are submitted.
const REQUESTS_MAX: u32 = 512;

/// Completions that the ring holds. The kernel keeps more, at a cost.
const COMPLETIONS_MAX: u32 = 4096;

/// How often a full queue is submitted before the kernel counts as out of memory.
const SUBMISSIONS_MAX: usize = 1000;

/// The only group of buffers.
const GROUP: u16 = 0;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Received bytes of a connection, until the request is cancelled or no buffer is left.
    Receive,
    /// A connection or listener is readable, or a connection has ended.
    Input,
    /// A connection takes bytes.
    Output,
    /// Not all bytes were sent. Its number is that of the buffer.
    Send,
    /// The waker was used.
    Waker,
    /// A request was not cancelled, since it has ended.
    Cancel,
}

impl Purpose {
    const ALL: [Self; 6] =
        [Self::Receive, Self::Input, Self::Output, Self::Send, Self::Waker, Self::Cancel];
}

/// Bits of a token below the slot of a connection.
const PURPOSE_BITS: u32 = 3;

/// Identifies a request: its purpose, and its connection or buffer. No more than one is in flight with the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token(u64);

impl Token {
    /// There are fewer than 2^29 connections, since each has a file descriptor.
    fn new(purpose: Purpose, id: ConnId) -> Self {
        let (generation, slot) = (id.0 & !0xffff_ffff, id.0 & 0xffff_ffff);
        Self(generation | slot << PURPOSE_BITS | purpose as u64)
    }

    fn purpose(self) -> Purpose {
        let number = self.0 & ((1 << PURPOSE_BITS) - 1);
        let purpose = usize::try_from(number).ok().and_then(|n| Purpose::ALL.get(n));
        purpose.copied().unwrap_or(Purpose::Cancel)
    }

    fn id(self) -> ConnId {
        ConnId((self.0 & !0xffff_ffff) | (self.0 & 0xffff_ffff) >> PURPOSE_BITS)
    }
}

/// What the kernel reports about a request.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) purpose: Purpose,
    pub(super) id: ConnId,
    /// Number of bytes, or ready events.
    pub(super) result: Result<u32, Errno>,
    /// No other completion of this request follows.
    pub(super) is_last: bool,
    pub(super) buffer: Option<ReceivedBuffer>,
}

/// A ring, and the memory that its requests use.
pub(super) struct Ring {
    uring: IoUring,
    pub(super) received: ReceiveBuffers,
    send_buffers: SendBuffers,
    /// The connection and the buffer of each send whose end is not known.
    sends: Vec<(ConnId, u16)>,
    /// Only the thread that has enabled it can use it.
    is_enabled: bool,
    /// Requests that have not completed, apart from sends and cancellations.
    in_flight: usize,
    has_no_iowait: bool,
    failure: Option<io::Error>,
}

impl Ring {
    pub(super) fn new() -> Result<Self, UringError> {
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            // So that a thread that polls sees without a system call whether there is something to do.
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS_MAX)
            // Enabled by the thread that uses it, which may be another one.
            .setup_r_disabled();
        let uring = builder.build(REQUESTS_MAX).map_err(UringError::new)?;
        let received = ReceiveBuffers::new();
        // SAFETY: the memory of the ring has as many slots, and lives until the ring is closed, see `Drop`.
        let registered = unsafe {
            let submitter = uring.submitter();
            submitter.register_buf_ring_with_flags(received.ring_addr(), RECEIVE_BUFFERS, GROUP, 0)
        };
        registered.map_err(UringError::new)?;
        let send_buffers = SendBuffers::new();
        Ok(Self {
            has_no_iowait: uring.params().is_feature_no_iowait(),
            uring,
            received,
            send_buffers,
            sends: Vec::with_capacity(SEND_BUFFERS.into()),
            is_enabled: false,
            in_flight: 0,
            failure: None,
        })
    }

    /// Receives from a connection until it is cancelled, fails, or no buffer is left.
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, id: ConnId) {
        let request = opcode::RecvMulti::new(Fd(fd.as_raw_fd()), GROUP).build();
        self.push(&request, Purpose::Receive, id);
    }

    /// Waits once until one of `events` is there.
    pub(super) fn poll(
        &mut self,
        fd: BorrowedFd<'_>,
        events: PollFlags,
        purpose: Purpose,
        id: ConnId,
    ) {
        let request = opcode::PollAdd::new(Fd(fd.as_raw_fd()), events.bits().into()).build();
        self.push(&request, purpose, id);
    }

    /// Cancels a request. Its last completion follows.
    pub(super) fn cancel(&mut self, purpose: Purpose, id: ConnId) {
        let token = Token::new(purpose, id);
        let request = opcode::AsyncCancel::new(token.0).build().flags(Flags::SKIP_SUCCESS);
        self.push_entry(&request.user_data(Token::new(Purpose::Cancel, id).0));
    }

    /// Has `bytes` sent with the next submission. Returns whether they fit into a buffer, and one was free.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, id: ConnId, bytes: &[u8]) -> bool {
        let Some(buffer) = self.send_buffers.fill(bytes) else { return false };
        let index = buffer.index();
        let (start, len) = self.send_buffers.lend(buffer);
        let len = u32::try_from(len).unwrap_or(0);
        // It ends with its submission, whether there is room or not, and completes only if not all bytes were sent.
        let request = opcode::Send::new(Fd(fd.as_raw_fd()), start, len)
            .flags(libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .flags(Flags::SKIP_SUCCESS);
        let token = Token::new(Purpose::Send, ConnId(index.into()));
        self.push_entry(&request.user_data(token.0));
        self.sends.push((id, index));
        true
    }

    /// The buffer of a send that has completed, since not all of its bytes were sent; to be [freed](Self::free).
    pub(super) fn take_unsent(&mut self, completion: &Completion) -> Option<(ConnId, SendBuffer)> {
        let index = u16::try_from(completion.id.slot()).ok()?;
        let &(id, _) = self.sends.iter().find(|send| send.1 == index)?;
        Some((id, self.send_buffers.take_back(index)?))
    }

    /// The connection of a send that has ended without a completion: all of its bytes were sent. `None` if there are no more. All
    /// completions must have been taken.
    pub(super) fn take_sent(&mut self) -> Option<ConnId> {
        if self.sends.is_empty() {
            return None;
        }
        // Sends end when they are submitted. Their completions may be among those for which the ring has no room.
        let queue = self.uring.submission();
        if !queue.is_empty() || queue.cq_overflow() {
            return None;
        }
        drop(queue);
        loop {
            let (id, index) = self.sends.pop()?;
            if let Some(buffer) = self.send_buffers.take_back(index) {
                self.send_buffers.free(buffer);
                return Some(id);
            }
        }
    }

    pub(super) fn bytes(&self, buffer: &SendBuffer) -> &[u8] {
        self.send_buffers.get(buffer)
    }

    pub(super) fn free(&mut self, buffer: SendBuffer) {
        self.send_buffers.free(buffer);
    }

    /// Whether there are sends whose end is not known.
    pub(super) fn has_sends(&self) -> bool {
        !self.sends.is_empty()
    }

    fn push(&mut self, request: &squeue::Entry, purpose: Purpose, id: ConnId) {
        self.in_flight += 1;
        self.push_entry(&request.clone().user_data(Token::new(purpose, id).0));
    }

    fn push_entry(&mut self, request: &squeue::Entry) {
        for _ in 0..SUBMISSIONS_MAX {
            // SAFETY: of all requests, only sends refer to memory. That belongs to `self.send_buffers`, and is not written to until
            // the send has ended: the kernel uses it only during the system call that submits the send, since `MSG_DONTWAIT` keeps
            // the request from being continued later. Receive requests use the registered buffers, which are not freed before
            // these requests have completed, see `Drop`.
            if unsafe { self.uring.submission().push(request) }.is_ok() {
                return;
            }
            if let Err(error) = self.submit() {
                return self.fail(error);
            }
        }
        self.fail(io::ErrorKind::OutOfMemory.into());
    }

    fn enable(&mut self) -> io::Result<()> {
        if !self.is_enabled {
            self.uring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// As [`submit`](Self::submit); the next wait fails if this does.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.submit() {
            self.fail(error);
        }
    }

    /// Has the next wait fail.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failure.get_or_insert(error);
    }

    /// Submits all requests, and lets the kernel complete what it can; does not wait.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.enable()?;
        let (submitter, submission, _) = self.uring.split();
        let has_work = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if has_work { ignore_interruptions(submitter.submit()) } else { Ok(()) }
    }

    /// Submits all requests, and waits for a completion or for `timeout`.
    pub(super) fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        let timespec = timeout.map(Timespec::from);
        let args = SubmitArgs::new();
        let args = match &timespec {
            Some(timespec) => args.timespec(timespec),
            None => args,
        };
        // An idle thread would count as waiting for a disk.
        let flags = if self.has_no_iowait { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let submitter = self.uring.submitter();
        ignore_interruptions(submitter.submit_with_args_and_flags(1, &args, flags))
    }

    /// The next completion.
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        let entry = self.uring.completion().next()?;
        let token = Token(entry.user_data());
        let (purpose, id) = (token.purpose(), token.id());
        let is_last = !cqueue::more(entry.flags());
        if is_last && !matches!(purpose, Purpose::Cancel | Purpose::Send) {
            self.in_flight -= 1;
        }
        let result = match u32::try_from(entry.result()) {
            Ok(number) => Ok(number),
            Err(_) => Err(Errno::from_raw_os_error(-entry.result())),
        };
        let len = result.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0));
        let buffer = cqueue::buffer_select(entry.flags());
        let buffer = buffer.map(|index| ReceiveBuffers::received(index, len));
        Some(Completion { purpose, id, result, is_last, buffer })
    }

    /// Cancels all requests and waits for their ends, for a limited time. Returns whether none is left.
    fn cancel_all(&mut self) -> bool {
        const ATTEMPTS: usize = 100;
        for _ in 0..ATTEMPTS {
            while self.next_completion().is_some() {}
            if self.in_flight == 0 {
                return true;
            }
            let all = io_uring::types::CancelBuilder::any();
            let request = opcode::AsyncCancel2::new(all).build().flags(Flags::SKIP_SUCCESS);
            self.push_entry(&request.user_data(Token::new(Purpose::Cancel, ConnId::default()).0));
            if self.submit_and_wait(Some(Duration::from_millis(1))).is_err() {
                return false;
            }
        }
        false
    }
}

/// The buffers for receiving must stay until the kernel has completed all requests.
impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight > 0 && !self.cancel_all() {
            // Another thread than the one that has used the ring, or a kernel that does not cancel: the memory is not freed.
            std::mem::forget(std::mem::replace(&mut self.received, ReceiveBuffers::new()));
        }
    }
}

/// Ends of a wait that are no errors: the time is over, a signal, or completions that must be taken first.
fn ignore_interruptions(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_purpose_and_the_id_of_its_request() {
        for purpose in Purpose::ALL {
            for id in [0, 1, 5 << 32 | 0x4d, u64::from(u32::MAX) << 32 | 0x1fff_ffff].map(ConnId) {
                let token = Token::new(purpose, id);
                assert_eq!((token.purpose(), token.id()), (purpose, id));
            }
        }
    }
}
