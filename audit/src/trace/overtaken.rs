//! Requests that wait while others go first, counted where a bound was declared.
//!
//! Not here: what may be declared (`admission`).

use super::Reader;
use super::request::Stage;
use crate::notebook::{Layer, Notebook};

impl Reader<'_> {
    /// The request that came at this place is let in: all that came before and still wait are overtaken.
    pub(super) fn overtake(&mut self, place: u64, notes: &mut Notebook) {
        let begin = self.begin.as_ref();
        let Some(admission) = begin.and_then(|begin| begin.settings.admission.as_ref()) else {
            return;
        };
        let most = admission.overtaken_max;
        let waiting = |it: &(&String, &mut super::Asking)| {
            it.1.stage == Stage::Requested && it.1.place < place
        };
        for (id, passed) in self.requests.iter_mut().filter(waiting) {
            passed.overtaken += 1;
            let overtaken = passed.overtaken;
            notes.check(Layer::Chain, overtaken <= most, || {
                format!("request {id:?} is overtaken {overtaken} times, the envelope allows {most}")
            });
        }
        notes.recomputed("admissions within the declared bound", 1);
    }
}
