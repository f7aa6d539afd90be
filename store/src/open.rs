//! Requests that the engine has, and what is heard of them on the way to whoever listens.
//!
//! Not here: what follows from it (`worker`).

use std::collections::HashMap;

use engine::{Event, Scope, Sink};

use crate::lease::Lease;
use crate::told::WorkerSink;

/// A request the engine has.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) scope: Scope,
    pub(crate) text: Vec<u32>,
    /// Leases that end once its prompt is kept.
    pub(crate) leases: Vec<Lease>,
}

/// Hands events on and notes whose text has become findable.
pub(crate) struct Heard<'a> {
    pub(crate) sink: &'a mut dyn WorkerSink,
    pub(crate) open: &'a mut HashMap<u64, Open>,
    /// Requests whose prompt is computed, or that are finished, in that order.
    pub(crate) computed: Vec<(u64, bool)>,
}

impl Sink for Heard<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Prefill { request, .. } => self.computed.push((request, false)),
            Event::Token { request, id, .. } => {
                if let Some(open) = self.open.get_mut(&request) {
                    open.text.push(id);
                }
            }
            Event::Finish { request, .. } => self.computed.push((request, true)),
            _ => {}
        }
        self.sink.event(event);
    }
}
