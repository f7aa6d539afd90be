//! Texts taken out of a cache while others run: whom that bars from what, worked out from token ids.
//!
//! Not here: whether the envelope asked for it (`session`), or what the cache says it refuses (`kv`).

use super::Reader;
use crate::line::{Base, Quarantine};
use crate::notebook::{Layer, Notebook, Stop};
use crate::oracle::PAGE_POSITIONS;

/// A text that nothing matches any more, with all before it that its key stands for.
pub(super) struct Barred {
    /// All ids up to the end of what the key names: of the text, what lies in its first page.
    key: Vec<u32>,
    /// Where the text begins.
    pub(super) start: u64,
}

impl Barred {
    /// Positions of the text that the key names.
    pub(super) fn positions(&self) -> u64 {
        self.key.len() as u64 - self.start
    }
}

/// Where the first text begins that bars `ids`.
pub(super) fn barred_at(barred: &[Barred], ids: &[u32]) -> Option<u64> {
    let bars = barred.iter().filter(|it| ids.starts_with(&it.key));
    bars.map(|it| it.start).min()
}

/// What a quarantine says of whom.
pub(crate) struct Cut {
    /// Agent and turn of the request it names.
    pub(crate) of: (u64, u64),
    /// Positions of its prompt taken out, and
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// all it has.
    pub(crate) prompt_len: u64,
}

impl Reader<'_> {
    pub(super) fn quarantine(
        &mut self,
        line: &Quarantine,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let id = &line.request;
        let (prompt, of) = if let Some(open) = self.requests.get(id) {
            (open.ids().to_vec(), open.of())
        } else if let Some(place) = (self.prompts.transcripts).find(&Base::Request(id.clone())) {
            let said = self.prompts.transcripts.at(place);
            let prompt = self
                .prompts
                .transcripts
                .ids(place, said.keep + said.appended);
            (prompt, said.of.unwrap_or_default())
        } else {
            return Err(notes.stop(format!("no request {id:?} was stated before")));
        };
        let (start, end, prompt_len) = (line.start, line.end, prompt.len() as u64);
        notes.insist(start < end && end <= prompt_len, || {
            format!("positions {start} to {end} are no span of a prompt of {prompt_len}")
        })?;
        let cut = Cut {
            of,
            start,
            end,
            prompt_len,
        };
        self.demands.quarantine(&cut, notes)?;
        let first_page_end = (start / PAGE_POSITIONS + 1) * PAGE_POSITIONS;
        let mut key = prompt;
        key.truncate(end.min(first_page_end) as usize);
        self.prompts.hold(key.len(), notes)?;
        let barred = self.requests.values();
        let running = barred.filter(|it| it.ids().starts_with(&key));
        let running = running.count() as u64;
        notes.same(Layer::Count, "running", &line.running, &running);
        let most = self.kv_pages();
        notes.check(Layer::Count, line.pages <= most, || {
            let pages = line.pages;
            format!("pages is {pages}, the cache has at most {most}")
        });
        self.barred.push(Barred { key, start });
        notes.recomputed("quarantines", 1);
        Ok(())
    }
}
