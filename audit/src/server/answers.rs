//! Requests over the wire, and their answers: pieces with their times, and what the server says of its work.
//!
//! Not here: what came before the first of them (`prepare`).

use super::prepare::{check_found, check_whole};
use super::wire::{check_asks, check_sent, check_status, check_usage};
use super::{Answered, Reader, plus};
use crate::latencies::Times;
use crate::line::Request;
use crate::line::server::Answer;
use crate::notebook::{Layer, Notebook, Stop};
use crate::trace::{Output, Prompted};

/// One request that was not answered yet.
pub(super) struct Open {
    prompted: Prompted,
    t_ns: u64,
}

impl Reader<'_> {
    pub(super) fn request(
        &mut self,
        request: Request,
        clock: (u64, u64),
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        notes.insist(self.is_prepared(), || {
            "requests begin after both probes, and in an arm named `shared` when every slot has its copy".to_owned()
        })?;
        let id = request.id.clone();
        let known = self.open.contains_key(&id) || self.prompts.has_finished(&id);
        notes.insist(!known, || format!("a request {id:?} was stated before"))?;
        let prompted = self.prompts.ask(request, notes)?;
        let (base_len, base_of) = (prompted.base_len, prompted.base_of);
        (self.session).request(&prompted.request, base_len, base_of, clock, notes);
        let length = prompted.ids.len() as u64;
        self.check_room(length, prompted.request.decode_max, notes);
        self.sums.requests += 1;
        self.sums.prompt_tokens += length;
        let (_, t_ns) = clock; // of the line before, and its own
        self.sums.first_t_ns.get_or_insert(t_ns);
        self.open.insert(id, Open { prompted, t_ns });
        Ok(())
    }

    /// A slot has room for the prompt and all of its answer but the last, which is never fed.
    fn check_room(&self, prompt_len: u64, decode_max: u64, notes: &mut Notebook) {
        let ready = self.ready.as_ref();
        let room = ready.and_then(|it| it.settings.slot_positions);
        let needed = prompt_len.saturating_add(decode_max).saturating_sub(1);
        notes.check(
            Layer::Memory,
            room.is_none_or(|room| needed <= room),
            || format!("prompt and answer take {needed} positions, a slot has {room:?}"),
        );
    }

    pub(super) fn answer(
        &mut self,
        answer: Answer,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let Some(open) = self.open.remove(&answer.request) else {
            return Err(notes.stop(format!("no request {:?} is open", answer.request)));
        };
        self.prompts.hold(answer.ids.len(), notes)?;
        let prompted = open.prompted;
        let (request, prompt) = (&prompted.request, &prompted.ids);
        check_sent(&answer.sent, prompt, notes);
        check_asks(&answer.sent, request, notes);
        check_status(answer.status, notes);
        let clock = (request.due_ns, open.t_ns);
        let (cached, computed, length) = (answer.cached, answer.computed, answer.ids.len() as u64);
        check_usage(&answer.usage, [cached, computed, Some(length)], notes);
        check_whole(cached, computed, prompt.len() as u64, notes);
        let limit = self.reuse.limits(&request.session, prompt).0;
        check_found(&request.id, cached, limit, notes);
        let barred = self.ready.as_ref().map_or(&[][..], |ready| &ready.barred);
        let chosen = answer
            .ids
            .iter()
            .find(|id| barred.binary_search(id).is_ok());
        notes.check(Layer::Settings, chosen.is_none(), || {
            format!("{chosen:?} was answered, which the server said it would not")
        });
        self.session.answered(&answer.request, &answer.ids, notes);
        check_pieces(&answer, t_ns, t_ns.saturating_sub(open.t_ns), notes);
        let sums = &mut self.sums;
        sums.cached = plus(sums.cached, cached);
        let of_turn = sums.computed.entry(request.turn).or_insert(Some(0));
        *of_turn = plus(*of_turn, computed);
        sums.decode_tokens += length;
        sums.last_t_ns = Some(t_ns);
        *notes
            .replayable
            .entry("ids another engine answered")
            .or_default() += length;
        self.answered.push(Answered {
            request: answer.request,
            of: (request.agent, request.turn),
        });
        let output = Output {
            prompt_sha256: request.prompt_sha256.clone(),
            times: Times::of_pieces(&answer.chunk_t_ns, &answer.chunk_tokens).within(clock, t_ns),
            ids: answer.ids,
            logits_sha256: String::new(),
        };
        let (session, cached) = self.prompts.answered(prompted, output);
        let held = self.reuse.computed(&session, &cached);
        self.prompts.hold(held, notes)
    }
}

/// Pieces have the output between them, each with a time between request and answer.
fn check_pieces(answer: &Answer, t_ns: u64, took_ns: u64, notes: &mut Notebook) {
    notes.same(Layer::Count, "reason", answer.reason.as_str(), "length");
    let (times, tokens) = (&answer.chunk_t_ns, &answer.chunk_tokens);
    notes.same(
        Layer::Count,
        "entries of chunk_tokens",
        &tokens.len(),
        &times.len(),
    );
    let sum = tokens.iter().copied().fold(0, u64::saturating_add);
    let whole = sum == answer.ids.len() as u64 && !tokens.contains(&0);
    notes.check(Layer::Count, whole, || {
        let ids = answer.ids.len();
        format!("chunk_tokens has {sum} tokens of {ids}, or a piece without any")
    });
    let in_time = times.last().is_none_or(|last| *last <= took_ns);
    notes.check(Layer::Clock, times.is_sorted() && in_time, || {
        format!("chunk_t_ns decreases, or passes the {took_ns} ns between request and answer")
    });
    let connect_ns = answer.connect_ns.unwrap_or(0);
    notes.check(Layer::Clock, connect_ns <= t_ns, || {
        format!("connect_ns is {connect_ns}, the clock stands at {t_ns}")
    });
    *notes.asserted.entry("clock times").or_default() += times.len() as u64 + 1;
    *notes.asserted.entry("a server's own counts").or_default() += 2;
}
