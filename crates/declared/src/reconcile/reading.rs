//! What a switch has, read part by part.

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_base::HashMap;
use sluice_openflow::{
    FlowStatsRequest, GroupDescRequest, Message, MeterRequest, Multipart, MultipartReply,
    MultipartRequest, Version,
};
use sluice_sdk::Answer;
use sluice_sdk::flow_space::{QUARANTINE, STATIC};

use crate::entry::Kind;
use crate::form::{Form, Slot};

/// A reading that is in progress.
#[derive(Debug)]
pub(super) struct Reading {
    /// What it reads.
    pub(super) kinds: Vec<Kind>,
    /// What is still to be read; the first part was requested.
    parts: VecDeque<Kind>,
    read: HashMap<Slot, Arc<Form>>,
    /// Kinds that the switch cannot list, and why.
    unreadable: Vec<(Kind, String)>,
}

/// What follows an answer.
#[derive(Debug)]
pub(super) enum ReadNext {
    /// The next part is to be requested.
    Request,
    /// All was read. Kinds that the switch cannot list are named with the reason.
    Complete(HashMap<Slot, Arc<Form>>, Vec<(Kind, String)>),
    /// It failed.
    Failed(String),
    /// The controller has too much to do; the same is to be requested again.
    Later,
}

impl Reading {
    /// Flow entries, and other kinds if the switch has, or may have, some.
    pub(super) fn new(others: impl IntoIterator<Item = Kind>) -> Self {
        let kinds: Vec<_> = std::iter::once(Kind::Flow).chain(others).collect();
        Self {
            parts: kinds.iter().copied().collect(),
            kinds,
            read: HashMap::default(),
            unreadable: vec![],
        }
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

    pub(super) fn on_answer(&mut self, answer: Answer) -> ReadNext {
        let Some(kind) = self.parts.front().copied() else {
            return ReadNext::Failed("nothing was requested".to_owned());
        };
        match answer {
            Answer::Multipart(reply) => match reply.parse() {
                Ok(reply) => {
                    if let Err(other) = self.add(reply) {
                        return ReadNext::Failed(format!("unexpected reply: {other}"));
                    }
                }
                Err(error) => return ReadNext::Failed(format!("malformed reply: {error}")),
            },
            Answer::TooMany | Answer::Paused => return ReadNext::Later,
            answer @ (Answer::Refused(_) | Answer::Unsupported { .. }) if kind != Kind::Flow => {
                self.unreadable.push((kind, format!("{kind}s cannot be read: {answer}")));
            }
            other => return ReadNext::Failed(format!("{kind}s cannot be read: {other}")),
        }
        self.parts.pop_front();
        if self.parts.is_empty() {
            let read = std::mem::take(&mut self.read);
            return ReadNext::Complete(read, std::mem::take(&mut self.unreadable));
        }
        ReadNext::Request
    }

    fn add(&mut self, reply: MultipartReply) -> Result<(), &'static str> {
        let forms: Vec<_> = match reply {
            MultipartReply::FlowDesc { flows } => {
                let is_own = |cookie| STATIC.has_cookie(cookie) || QUARANTINE.has_cookie(cookie);
                // In 1.0 all flow entries are listed.
                let own = flows.into_iter().filter(|flow| is_own(flow.cookie));
                own.map(Form::reported_flow).collect()
            }
            MultipartReply::GroupDesc { groups } => {
                groups.into_iter().map(Form::reported_group).collect()
            }
            MultipartReply::MeterDesc { meters } => {
                meters.into_iter().map(Form::reported_meter).collect()
            }
            _ => return Err("another multipart type"),
        };
        self.read.extend(forms.into_iter().map(|form| (form.slot.clone(), Arc::new(form))));
        Ok(())
    }
}
