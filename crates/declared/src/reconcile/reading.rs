//! What a switch has, read part by part.

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_base::{HashMap, HashSet};
use sluice_openflow::{
    FlowDesc, FlowStatsRequest, GroupDescRequest, Message, MeterRequest, Multipart, MultipartReply,
    MultipartRequest, Version,
};
use sluice_sdk::Answer;
use sluice_sdk::flow_space::{QUARANTINE, STATIC};

use super::switch::Wanted;
use crate::entry::Kind;
use crate::form::{Form, Slot};

/// Flow entries that are not declared and are kept of one reading. Further ones are left out until these are deleted.
pub(super) const UNDECLARED_MAX: usize = 2048;

/// A reading that is in progress.
#[derive(Debug)]
pub(super) struct Reading {
    /// What it reads.
    pub(super) kinds: Vec<Kind>,
    /// What is still to be read; the first part was requested.
    parts: VecDeque<Kind>,
    read: Contents,
}

/// What a switch has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: HashMap<Slot, Arc<Form>>,
    /// Kinds that the switch cannot list, and why.
    pub(super) unreadable: Vec<(Kind, String)>,
    /// Flow entries that are not declared and were left out.
    pub(super) surplus: usize,
}

/// What follows an answer.
#[derive(Debug)]
pub(super) enum ReadNext {
    /// The next part is to be requested.
    Request,
    /// All was read.
    Complete(Contents),
    /// It failed.
    Failed(String),
    /// The controller has too much to do; the same is to be requested again.
    Later,
}

impl Reading {
    /// Flow entries, and other kinds if the switch has, or may have, some.
    pub(super) fn new(others: impl IntoIterator<Item = Kind>) -> Self {
        let kinds: Vec<_> = std::iter::once(Kind::Flow).chain(others).collect();
        Self { parts: kinds.iter().copied().collect(), kinds, read: Contents::default() }
    }

    pub(super) fn request(&self, version: Version) -> Option<Message> {
        let request = match self.parts.front()? {
            Kind::Flow => {
                let mut request = FlowStatsRequest::default();
                if version > Version::V1_0 {
                    // The bits in which both cookies agree. Other entries that have them are left out below.
                    let common = !(STATIC.cookie ^ QUARANTINE.cookie);
                    request.cookie_mask = STATIC.cookie_mask & QUARANTINE.cookie_mask & common;
                    request.cookie = STATIC.cookie & request.cookie_mask;
                }
                MultipartRequest::FlowDesc(request)
            }
            Kind::Group => MultipartRequest::GroupDesc(GroupDescRequest::default()),
            Kind::Meter => MultipartRequest::MeterDesc(MeterRequest::default()),
        };
        Some(Message::MultipartRequest(Multipart::single(request)))
    }

    pub(super) fn on_answer(&mut self, answer: Answer, want: &Wanted) -> ReadNext {
        let Some(kind) = self.parts.front().copied() else {
            return ReadNext::Failed("nothing was requested".to_owned());
        };
        match answer {
            Answer::Multipart(reply) => match reply.parse() {
                Ok(reply) => {
                    if let Err(other) = self.add(reply, want) {
                        return ReadNext::Failed(format!("unexpected reply: {other}"));
                    }
                }
                Err(error) => return ReadNext::Failed(format!("malformed reply: {error}")),
            },
            Answer::TooMany | Answer::Paused => return ReadNext::Later,
            answer @ (Answer::Refused(_) | Answer::Unsupported { .. }) if kind != Kind::Flow => {
                self.read.unreadable.push((kind, format!("{kind}s cannot be read: {answer}")));
            }
            other => return ReadNext::Failed(format!("{kind}s cannot be read: {other}")),
        }
        self.parts.pop_front();
        if self.parts.is_empty() {
            return ReadNext::Complete(std::mem::take(&mut self.read));
        }
        ReadNext::Request
    }

    fn add(&mut self, reply: MultipartReply, want: &Wanted) -> Result<(), &'static str> {
        match reply {
            MultipartReply::FlowDesc { flows } => self.add_flows(flows, want),
            MultipartReply::GroupDesc { groups } => {
                self.extend(groups.into_iter().map(Form::reported_group));
            }
            MultipartReply::MeterDesc { meters } => {
                self.extend(meters.into_iter().map(Form::reported_meter));
            }
            _ => return Err("another multipart type"),
        }
        Ok(())
    }

    fn add_flows(&mut self, flows: Vec<FlowDesc>, want: &Wanted) {
        // A switch may report the match of a declared entry in another way.
        let mut declared = HashSet::default();
        if flows.len() > UNDECLARED_MAX {
            declared.extend(want.values().map(|(_, form)| form.identity()));
        }
        let mut undeclared = 0;
        let is_kept = |form: &Form| {
            if want.contains_key(&form.slot) || declared.remove(&form.identity()) {
                return true;
            }
            undeclared += 1;
            undeclared <= UNDECLARED_MAX
        };
        // In 1.0 all flow entries are listed.
        let is_own = |cookie| STATIC.has_cookie(cookie) || QUARANTINE.has_cookie(cookie);
        let own = flows.into_iter().filter(|flow| is_own(flow.cookie));
        self.extend(own.map(Form::reported_flow).filter(is_kept));
        self.read.surplus = undeclared.saturating_sub(UNDECLARED_MAX);
    }

    fn extend(&mut self, forms: impl Iterator<Item = Form>) {
        self.read.entries.extend(forms.map(|form| (form.slot.clone(), Arc::new(form))));
    }
}
