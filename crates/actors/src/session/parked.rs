//! Calls that wait on a session.

use std::collections::VecDeque;

use bytes::Bytes;
use procession_core::{Moment, RequestId};
use ractor::RpcReplyPort;

use crate::{
    error::{CloseStdinError, PollError, StopError, WaitError, WriteError},
    report::{Condition, PollQuery, PollReport, RawOutput, ReadQuery, StopReport, WaitReport, Written},
};

/// Calls that wait; dropped with the actor, so that no caller is stuck.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) polls: Vec<ParkedPoll>,
    pub(super) reads: Vec<ParkedRead>,
    pub(super) waits: Vec<ParkedWait>,
    pub(super) stops: Vec<RpcReplyPort<Result<StopReport, StopError>>>,
    pub(super) writes: VecDeque<ParkedWrite>,
    pub(super) closes: Vec<RpcReplyPort<Result<(), CloseStdinError>>>,
    /// Writes with a name that were answered, the latest last.
    pub(super) answered_writes: VecDeque<(RequestId, Result<Written, WriteError>)>,
}

#[derive(Debug)]
pub(super) struct ParkedPoll {
    pub(super) query: PollQuery,
    pub(super) until: Moment,
    /// When its time is up; `until` may lie before.
    pub(super) latest: Moment,
    pub(super) reply: RpcReplyPort<Result<PollReport, PollError>>,
}

#[derive(Debug)]
pub(super) struct ParkedRead {
    pub(super) query: ReadQuery,
    pub(super) until: Moment,
    pub(super) reply: RpcReplyPort<Result<RawOutput, PollError>>,
}

#[derive(Debug)]
pub(super) struct ParkedWait {
    pub(super) condition: Condition,
    pub(super) until: Moment,
    pub(super) reply: RpcReplyPort<Result<WaitReport, WaitError>>,
}

#[derive(Debug)]
pub(super) struct ParkedWrite {
    pub(super) rest: Bytes,
    pub(super) accepted_bytes: u64,
    pub(super) until: Moment,
    pub(super) request_id: Option<RequestId>,
    /// One, or more where the same named write was asked for again meanwhile.
    pub(super) replies: Vec<RpcReplyPort<Result<Written, WriteError>>>,
}

/// How many named writes are remembered.
const ANSWERED_WRITES: usize = 64;

impl Parked {
    /// How many calls wait.
    pub(super) fn len(&self) -> usize {
        self.polls.len()
            + self.reads.len()
            + self.waits.len()
            + self.stops.len()
            + self.writes.len()
            + self.closes.len()
    }

    /// Forgets callers that gave up; a write goes on as long as somebody waits for it.
    pub(super) fn forget_vanished(&mut self) {
        self.polls.retain(|parked| !parked.reply.is_closed());
        self.reads.retain(|parked| !parked.reply.is_closed());
        self.waits.retain(|parked| !parked.reply.is_closed());
        self.stops.retain(|reply| !reply.is_closed());
        self.closes.retain(|reply| !reply.is_closed());
        for write in &mut self.writes {
            write.replies.retain(|reply| !reply.is_closed());
        }
        let answered = &mut self.answered_writes;
        self.writes.retain(|write| {
            if write.replies.is_empty() {
                if let Some(id) = &write.request_id {
                    // Nobody waits; who asks again learns how far it got.
                    let end = crate::report::WriteEnd::TimedOut;
                    answered.push_back((
                        id.clone(),
                        Ok(Written {
                            accepted_bytes: write.accepted_bytes,
                            end,
                        }),
                    ));
                }
                false
            } else {
                true
            }
        });
    }

    /// When the next of them has waited long enough.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let polls = self.polls.iter().map(|parked| parked.until);
        let reads = self.reads.iter().map(|parked| parked.until);
        let waits = self.waits.iter().map(|parked| parked.until);
        let writes = self.writes.iter().map(|parked| parked.until);
        polls.chain(reads).chain(waits).chain(writes).min()
    }

    /// Answers the write at the front.
    pub(super) fn answer_write(&mut self, result: &Result<Written, WriteError>) {
        let Some(write) = self.writes.pop_front() else {
            return;
        };
        self.answer(write, result);
    }

    /// Answers a write that was taken out of the queue.
    pub(super) fn answer(&mut self, write: ParkedWrite, result: &Result<Written, WriteError>) {
        for reply in write.replies {
            let _ = reply.send(result.clone());
        }
        if let Some(id) = write.request_id {
            self.answered_writes.push_back((id, result.clone()));
            if self.answered_writes.len() > ANSWERED_WRITES {
                self.answered_writes.pop_front();
            }
        }
    }
}
