//! What the declared workload demands of a trace, whichever kind it is.
//!
//! Not here: the demands themselves (`session`, `cell`).

use crate::cell::CellDemands;
use crate::line::{Finish, Request, Step};
use crate::notebook::{Notebook, Stop};
use crate::oracle::Cache;
use crate::session::Session;
use crate::trace::{Counters, Cut};

/// The demands of one workload on one trace.
pub(crate) enum Demands<'a> {
    Session(Box<Session>),
    Cell(CellDemands<'a>),
}

impl Demands<'_> {
    pub(crate) fn text(&mut self, ids: &[u32], notes: &mut Notebook) {
        match self {
            Self::Session(session) => session.text(ids, notes),
            Self::Cell(cell) => cell.text(ids, notes),
        }
    }

    /// `base_len` is the length of what the request continues, `base_of` its agent and turn if it is a request; `clock` are
    /// `t_ns` of the line before and its own.
    pub(crate) fn request(
        &mut self,
        request: &Request,
        base_len: u64,
        base_of: Option<(u64, u64)>,
        clock: (u64, u64),
        notes: &mut Notebook,
    ) {
        match self {
            Self::Session(session) => session.request(request, base_len, base_of, clock, notes),
            Self::Cell(cell) => cell.request(request, base_len, base_of, notes),
        }
    }

    /// `window` is from the `request` or `step` line before to this step's own, as `t_ns`.
    pub(crate) fn step(&mut self, step: &Step, window: (u64, u64), notes: &mut Notebook) {
        match self {
            Self::Session(session) => session.step(step, notes),
            Self::Cell(cell) => cell.step(step, window, notes),
        }
    }

    pub(crate) fn finish(&mut self, finish: &Finish, notes: &mut Notebook) {
        match self {
            Self::Session(session) => session.finish(finish, notes),
            Self::Cell(cell) => cell.finish(finish, notes),
        }
    }

    /// A text was taken out of the cache.
    pub(crate) fn quarantine(&mut self, cut: &Cut, notes: &mut Notebook) -> Result<(), Stop> {
        match self {
            Self::Session(session) => session.quarantine(cut, notes),
            Self::Cell(_) => Err(notes.stop("nothing is taken out of the cache of a cell")),
        }
    }

    /// Compares a whole trace's sums with what was declared.
    pub(crate) fn end(&self, cache: Cache, counted: &Counters, notes: &mut Notebook) {
        match self {
            Self::Session(session) => session.end(cache, counted, notes),
            Self::Cell(cell) => cell.end(counted, notes),
        }
    }

    /// Rows and nanoseconds of the steps that are timed.
    pub(crate) fn timed(&self) -> (u64, u64) {
        match self {
            Self::Session(_) => (0, 0),
            Self::Cell(cell) => cell.timed(),
        }
    }
}
