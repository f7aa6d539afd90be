//! What happens between a worker and its store, for whoever keeps a trace.
//!
//! Not here: when it is told (`worker`), or its time: whoever is told has the clock.

use engine::Sink;

use crate::keeper::Trouble;

/// Something that happened between a worker and its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The request it happened for, if for one.
    pub request: Option<u64>,
    /// What.
    pub what: What,
    /// How many of the first positions of the request's text are concerned, where some are.
    pub positions: usize,
}

/// What can happen between a worker and its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Whole pages are handed over to be kept: others may find them from now on.
    Published,
    /// A session is handed over to be kept, its open page and pending token with it.
    Sealed,
    /// These positions are cached now, some of them newly taken in.
    Restored,
    /// The store did not answer in time.
    Late,
    /// The store answered with a fault.
    Failed(String),
    /// What it gave was not taken in.
    Refused(String),
    /// Pages were not handed over: too many are on their way.
    Dropped,
    /// Whoever computed these pages let its lease run out; this worker computes them.
    TookOver,
}

/// Receives what an engine says and what happens with its store.
pub trait WorkerSink: Sink {
    /// Something happened with the store. Of what is handed over it is told before anyone can find it.
    fn store(&mut self, told: Told);
}

pub(crate) fn tell_late(request: u64, sink: &mut dyn WorkerSink) {
    tell(sink, Some(request), What::Late, 0);
}

pub(crate) fn tell(sink: &mut dyn WorkerSink, request: Option<u64>, what: What, positions: usize) {
    sink.store(Told {
        request,
        what,
        positions,
    });
}

impl From<Trouble> for What {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Failed(why) => Self::Failed(why),
            Trouble::Refused(why) => Self::Refused(why),
        }
    }
}
