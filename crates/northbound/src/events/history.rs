//! The last events, and the ids from which streams resume.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::event::{Event, EventDocument, EventFilter};

/// Events that are kept: some megabytes. A stream that is late by more ends, and one that resumes has a gap.
pub(crate) const HISTORY_MAX: usize = 4096;

/// Identifies an event: the run of the controller, and the number of the event in it, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    run: u64,
    number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.run, self.number)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (run, number) = text.split_once('-').ok_or(())?;
        let run = u64::from_str_radix(run, 16).map_err(drop)?;
        Ok(Self { run, number: number.parse().map_err(drop)? })
    }
}

/// The last events.
#[derive(Debug)]
pub(super) struct History {
    run: u64,
    /// Each with its time, without a gap. They become text when somebody reads them.
    events: VecDeque<(Event, Duration)>,
    next_number: u64,
}

/// What a stream sends next.
#[derive(Debug)]
pub(crate) enum NextEvent {
    /// This event, and then those from this number on.
    Event(Box<EventDocument>, u64),
    /// Nothing yet: then events from this number on.
    Later(u64),
    /// So many events were forgotten before they could be sent.
    Lost(u64),
}

/// The last events, as one document.
#[derive(Debug)]
pub(crate) struct LastEvents {
    /// The oldest first.
    pub(crate) events: Vec<EventDocument>,
    /// The id of the newest event of all.
    pub(crate) last_id: EventId,
    /// Number of events after the one that the client knows that are missing; `None` if it knows none of this run.
    pub(crate) lost: Option<u64>,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumption {
    /// The number of the first event.
    pub(crate) from: u64,
    /// What the stream says first.
    pub(crate) notice: Option<ResumptionNotice>,
}

/// What a client that resumes has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumptionNotice {
    /// So many events, which are no longer kept.
    Gap(u64),
    /// Its id is of another run of the controller.
    Reset,
}

impl History {
    pub(super) fn new(run: u64) -> Self {
        Self { run, events: VecDeque::new(), next_number: 1 }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    pub(super) fn id(&self, number: u64) -> EventId {
        EventId { run: self.run, number }
    }

    fn oldest_number(&self) -> u64 {
        self.next_number - self.events.len() as u64
    }

    pub(super) fn push(&mut self, event: Event, at: Duration) {
        if self.events.len() >= HISTORY_MAX {
            self.events.pop_front();
        }
        self.events.push_back((event, at));
        self.next_number += 1;
    }

    fn document(&self, number: u64, (event, at): &(Event, Duration)) -> EventDocument {
        let (id, text) = (self.id(number).to_string(), event.to_string());
        EventDocument { id, at_unix_s: at.as_secs_f64(), event: event.clone(), text }
    }

    pub(super) fn next(&self, from: u64, filter: &EventFilter) -> NextEvent {
        let Some(skipped) = from.checked_sub(self.oldest_number()) else {
            return NextEvent::Lost(self.oldest_number() - from);
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let mut events = (from..).zip(self.events.iter().skip(skipped));
        match events.find(|(_, (event, _))| filter.selects(event)) {
            Some((number, event)) => {
                NextEvent::Event(Box::new(self.document(number, event)), number + 1)
            }
            None => NextEvent::Later(self.next_number.max(from)),
        }
    }

    pub(super) fn resume(&self, after: Option<EventId>) -> Resumption {
        let oldest = self.oldest_number();
        match after {
            None => Resumption { from: self.next_number, notice: None },
            Some(id) if id.run != self.run || id.number >= self.next_number => {
                Resumption { from: oldest, notice: Some(ResumptionNotice::Reset) }
            }
            Some(id) => {
                let from = id.number + 1;
                let lost = oldest.saturating_sub(from);
                let notice = (lost > 0).then_some(ResumptionNotice::Gap(lost));
                Resumption { from: from.max(oldest), notice }
            }
        }
    }

    /// The last events after `after`: all that are kept, if it is of another run.
    pub(super) fn last(
        &self,
        filter: &EventFilter,
        after: Option<EventId>,
        limit: usize,
    ) -> LastEvents {
        let oldest = self.oldest_number();
        let resumption = after.map(|after| self.resume(Some(after)));
        let from = resumption.map_or(oldest, |it| it.from);
        let skipped = usize::try_from(from - oldest).unwrap_or(usize::MAX);
        let numbered = (from..).zip(self.events.iter().skip(skipped));
        let selected: Vec<_> = numbered.filter(|(_, (event, _))| filter.selects(event)).collect();
        let first = selected.len().saturating_sub(limit);
        let lost = resumption.and_then(|it| match it.notice {
            None => Some(first as u64),
            Some(ResumptionNotice::Gap(lost)) => Some(lost + first as u64),
            Some(ResumptionNotice::Reset) => None,
        });
        let listed = selected.iter().skip(first);
        LastEvents {
            events: listed.map(|&(number, event)| self.document(number, event)).collect(),
            last_id: self.id(self.next_number - 1),
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(events: u64) -> History {
        let mut history = History::new(0x1f);
        for _ in 0..events {
            history.push(Event::lost(), Duration::ZERO);
        }
        history
    }

    #[test]
    fn ids_are_texts_and_others_are_refused() {
        let id = history(0).id(12);
        assert_eq!((id.to_string().as_str(), id.to_string().parse()), ("1f-12", Ok(id)));
        for text in ["", "12", "1f-", "1f-x", "-1", "1f-1-2"] {
            assert_eq!(text.parse::<EventId>(), Err(()), "{text}");
        }
    }

    #[test]
    fn a_stream_resumes_where_it_ended_or_says_what_is_missing() {
        let history = history(HISTORY_MAX as u64 + 10);
        let (oldest, next) = (11, HISTORY_MAX as u64 + 11);
        let resume = |run, number| {
            let resumption = history.resume(Some(EventId { run, number }));
            (resumption.from, resumption.notice)
        };
        assert_eq!(history.resume(None), Resumption { from: next, notice: None });
        assert_eq!(resume(0x1f, 100), (101, None));
        assert_eq!(resume(0x1f, 10), (oldest, None));
        assert_eq!(resume(0x1f, 7), (oldest, Some(ResumptionNotice::Gap(3))));
        assert_eq!(resume(0x1f, next - 1), (next, None));
        assert_eq!(resume(0x1f, next), (oldest, Some(ResumptionNotice::Reset)));
        assert_eq!(resume(0x1e, 100), (oldest, Some(ResumptionNotice::Reset)));
    }

    #[test]
    fn the_last_events_after_an_id_are_those_that_a_client_lacks() {
        let history = history(HISTORY_MAX as u64 + 10);
        let all = EventFilter::default();
        let last = |run, number, limit| {
            let LastEvents { events, last_id, lost } =
                history.last(&all, Some(EventId { run, number }), limit);
            assert_eq!(last_id.to_string(), format!("1f-{}", HISTORY_MAX + 10));
            (events.first().map(|event| event.id.clone()), events.len(), lost)
        };
        let newest = HISTORY_MAX as u64 + 10;
        let id = |number| format!("1f-{number}");
        assert_eq!(last(0x1f, newest - 2, 9), (Some(id(newest - 1)), 2, Some(0)));
        assert_eq!(last(0x1f, newest - 9, 1), (Some(id(newest)), 1, Some(8)));
        assert_eq!(last(0x1f, newest, 9), (None, 0, Some(0)));
        assert_eq!(last(0x1f, 2, HISTORY_MAX), (Some(id(11)), HISTORY_MAX, Some(8)));
        assert_eq!(last(0x1e, newest, HISTORY_MAX), (Some(id(11)), HISTORY_MAX, None));
    }

    #[test]
    fn a_stream_that_lags_behind_too_far_learns_how_many_events_it_has_lost() {
        let history = history(HISTORY_MAX as u64 + 10);
        let all = EventFilter::default();
        assert!(matches!(history.next(4, &all), NextEvent::Lost(7)));
        let NextEvent::Event(event, next) = history.next(11, &all) else {
            panic!("the oldest one is kept")
        };
        assert_eq!((event.id.as_str(), next), ("1f-11", 12));
        let end = HISTORY_MAX as u64 + 11;
        assert!(matches!(history.next(end, &all), NextEvent::Later(n) if n == end));
        let other = EventFilter {
            kinds: vec![super::super::EventKind::LinkUp],
            switch: Some("s1".to_owned()),
        };
        assert_eq!(
            history.last(&other, None, 3).events.len(),
            3,
            "that events were lost concerns everybody"
        );
    }
}
