//! What comes before the first request: the server's own settings, two probes of its cache, and a text copied to all slots.
//!
//! Not here: what the envelope's agents ask (`answers`).

use std::collections::BTreeSet;

use super::wire::{check_sent, check_status, check_usage};
use super::{Reader, plus};
use crate::line::Text;
use crate::line::server::{Prime, Primed, Probe, Ready, Slot};
use crate::notebook::{Layer, Notebook, Stop};
use crate::oracle::served_with_flash;

/// What a server was just given it must find again, but for the last positions it computes anew for their logits.
const REPEAT_MISSES: u64 = 2;

/// Ids that end a text; vocabularies have a few.
const MAX_BARRED: usize = 64;

/// How far the text has come that is computed once and copied to every slot.
#[derive(Default)]
pub(super) struct Copied {
    /// Its name and ids, once it is being computed.
    text: Option<(String, Vec<u32>)>,
    primed_t_ns: Option<u64>,
    /// Slots that have it; the first is the one it was saved from.
    slots: BTreeSet<u64>,
}

impl Reader<'_> {
    pub(super) fn ready(
        &mut self,
        ready: Ready,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        notes.insist(self.ready.is_none(), || {
            "a server becomes ready once".to_owned()
        })?;
        let (took_ns, load_ns) = (t_ns.saturating_sub(self.begun_t_ns), ready.load_ns);
        notes.check(Layer::Clock, load_ns <= took_ns, || {
            format!("load_ns is {load_ns}, its clock leaves {took_ns}")
        });
        let settings = &ready.settings;
        for (what, stated, asked) in [
            ("settings.threads", settings.threads, self.threads()),
            ("settings.slots", settings.slots, self.slots()),
        ] {
            let obeyed = stated.unwrap_or(asked);
            notes.same(Layer::Settings, what, &obeyed, &asked);
        }
        let fused = served_with_flash(self.asked.arm).unwrap_or_default();
        let obeyed = settings.flash_attention.unwrap_or(fused);
        notes.same(Layer::Settings, "settings.flash_attention", &obeyed, &fused);
        let kv_dtype = settings.kv_dtype.as_deref().unwrap_or("f16");
        notes.same(Layer::Settings, "settings.kv_dtype", kv_dtype, "f16");
        let barred = &ready.barred;
        let listed = barred.is_sorted_by(|a, b| a < b) && barred.len() <= MAX_BARRED;
        notes.check(Layer::Format, listed, || {
            format!("barred: ids do not ascend, or there are more than {MAX_BARRED}")
        });
        self.ready = Some(ready);
        Ok(())
    }

    pub(super) fn probe(&mut self, probe: &Probe, notes: &mut Notebook) -> Result<(), Stop> {
        let repeats = self.probes == 0;
        let name = if repeats { "repeat" } else { "salted" };
        let in_order = self.ready.is_some() && self.probes < 2 && probe.name == name;
        notes.insist(in_order, || {
            "the order is ready, probe repeat, probe salted, text".to_owned()
        })?;
        self.probes += 1;
        let Probe {
            prompt_tokens,
            cached,
            computed,
            ..
        } = *probe;
        let least = prompt_tokens.saturating_sub(REPEAT_MISSES);
        let proves = cached.is_none_or(|it| if repeats { it >= least } else { it == 0 });
        notes.check(Layer::Reuse, proves, || {
            format!("the probe {name} found {cached:?} of {prompt_tokens} positions: its cache is not the one this arm needs")
        });
        check_whole(cached, computed, prompt_tokens, notes);
        Ok(())
    }

    pub(super) fn text(&mut self, text: Text, notes: &mut Notebook) -> Result<(), Stop> {
        notes.insist(self.probes == 2, || {
            "the order is ready, probe repeat, probe salted, text".to_owned()
        })?;
        self.session.text(&text.ids, notes);
        self.prompts.text(text, notes)
    }

    pub(super) fn prime(
        &mut self,
        prime: Prime,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let may = self.shares && self.copied.text.is_none();
        notes.insist(may, || {
            "only an arm named `shared` computes a text for others, and once".to_owned()
        })?;
        let Some(ids) = self.prompts.text_named(&prime.text) else {
            return Err(notes.stop(format!("no text {:?} was stated before", prime.text)));
        };
        self.prompts.hold(ids.len(), notes)?;
        check_sent(&prime.sent, &ids, notes);
        self.sums.first_t_ns.get_or_insert(t_ns);
        self.copied.text = Some((prime.text, ids));
        Ok(())
    }

    pub(super) fn primed(
        &mut self,
        primed: &Primed,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let copied = &mut self.copied;
        let awaited = copied.text.as_ref().filter(|it| it.0 == primed.text);
        let Some((name, ids)) = awaited.filter(|_| copied.primed_t_ns.is_none()) else {
            return Err(notes.stop("no text of this name is being computed for others"));
        };
        check_status(primed.status, notes);
        let (cached, computed) = (primed.cached, primed.computed);
        check_usage(&primed.usage, [cached, computed, None], notes);
        check_whole(cached, computed, ids.len() as u64, notes);
        let limit = self.reuse.limits(name, ids).0;
        check_found(name, cached, limit, notes);
        let held = self.reuse.computed(name, ids);
        copied.primed_t_ns = Some(t_ns);
        let of_turn = self.sums.computed.entry(0).or_insert(Some(0));
        *of_turn = plus(*of_turn, computed);
        self.prompts.hold(held, notes)
    }

    pub(super) fn slot(
        &mut self,
        slot: &Slot,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let slots = self.slots();
        let copied = &mut self.copied;
        let action = if copied.slots.is_empty() {
            "save"
        } else {
            "restore"
        };
        let Some((primed_t_ns, text)) = copied.primed_t_ns.zip(copied.text.as_ref()) else {
            return Err(notes.stop("nothing was computed that could be copied"));
        };
        notes.insist(slot.action == action, || {
            format!("the next copy is to {action}, not to {:?}", slot.action)
        })?;
        let (number, new) = (slot.slot, copied.slots.insert(slot.slot));
        notes.check(Layer::Format, new && number < slots, || {
            format!("slot {number} has the text already, or is none of the {slots}")
        });
        notes.same(Layer::Count, "tokens", &slot.tokens, &(text.1.len() as u64));
        let most_ns = t_ns.saturating_sub(primed_t_ns);
        notes.check(Layer::Clock, slot.wall_ns <= most_ns, || {
            format!(
                "the copy says {} ns, its clock leaves {most_ns}",
                slot.wall_ns
            )
        });
        *notes.asserted.entry("clock times").or_default() += 1;
        Ok(())
    }

    /// Whether everything that comes before the first request has come.
    pub(super) fn is_prepared(&self) -> bool {
        let copies = self.copied.slots.len() as u64;
        self.probes == 2 && (!self.shares || copies == self.slots())
    }
}

/// What was found and what was computed are all there was, where both are told.
#[track_caller]
pub(super) fn check_whole(
    cached: Option<u64>,
    computed: Option<u64>,
    prompt_len: u64,
    notes: &mut Notebook,
) {
    let whole = plus(cached, computed).unwrap_or(prompt_len);
    notes.same(Layer::Count, "cached + computed", &whole, &prompt_len);
}

/// No more was found of a request's prompt, or of a text, than existed.
#[track_caller]
pub(super) fn check_found(of: &str, cached: Option<u64>, limit: u64, notes: &mut Notebook) {
    let cached = cached.unwrap_or(0);
    notes.check(Layer::Reuse, cached <= limit, || {
        format!("{of}: cached is {cached}, beyond the oracle: {limit} matching positions existed")
    });
    notes.recomputed("reuse limits", 1);
}
