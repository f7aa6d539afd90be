//! The negative control of a gate: an arm that answers as ours does, but for one bit of one logit.
//!
//! A gate that lets it pass sees nothing. Not here: who asks for it (`harness gate`), or any arm that is measured.

use engine::{Event, Request, Sink};

use crate::Error;
use crate::arm::{Arm, Kv, Quarantined, Report};
use crate::native::Native;

/// The request whose logits are touched: the first made.
const TOUCHED: u64 = 0;

/// Our engine, one bit off.
pub(crate) struct Perturbed(pub(crate) Native);

impl Arm for Perturbed {
    fn submit(&mut self, request: Request) -> Result<(), Error> {
        self.0.submit(request)
    }

    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error> {
        self.0.step(&mut Touch(sink))
    }

    fn report(&self) -> Report {
        self.0.report()
    }

    fn quarantine(&mut self, ids: &[u32], start: usize) -> Result<Quarantined, Error> {
        self.0.quarantine(ids, start)
    }

    fn kv(&self) -> Result<Kv, Error> {
        self.0.kv()
    }
}

/// Hands every event on, the logits of one request changed in their last bit.
struct Touch<'a>(&'a mut dyn Sink);

impl Sink for Touch<'_> {
    fn event(&mut self, event: Event<'_>) {
        let Event::Finish {
            request: TOUCHED,
            reason,
            logits,
        } = event
        else {
            return self.0.event(event);
        };
        let mut logits = logits.to_vec();
        if let Some(first) = logits.first_mut() {
            *first = f32::from_bits(first.to_bits() ^ 1);
        }
        self.0.event(Event::Finish {
            request: TOUCHED,
            reason,
            logits: &logits,
        });
    }
}
