//! What the session workload demands of a trace: the shape of every request, and the closed forms of the sums.
//!
//! Not here: checks that hold for any workload (`trace`), or the generator of ids (`seeded`).

use std::collections::{BTreeMap, BTreeSet};

use crate::arrivals::Schedule;
use crate::envelope::{Envelope, Script, Workload};
use crate::hash;
use crate::line::{Base, Finish, Request, Step};
use crate::notebook::{Layer, Notebook, Stop};
use crate::oracle::{self, Cache};
use crate::seeded::{Seeded, check_seeded};
use crate::trace::{Counters, Cut};

/// Checks one trace against the declared session.
pub(crate) struct Session {
    work: Workload,
    seeded: Seeded,
    /// When requests are due, where that was declared.
    schedule: Option<Schedule>,
    /// By turn: the first id of each result, and whose it was.
    first_ids: BTreeMap<u64, BTreeMap<u32, u64>>,
    texts: u64,
    /// How long steps take, where that was scripted.
    script: Option<Script>,
    /// Pages its cache may hold.
    kv_pages: u64,
    /// Whether one request comes after the other: the arm does not batch, or agents come one by one.
    serial: bool,
    /// Agent and turn of the last request, and requests that have not finished.
    last: Option<(u64, u64)>,
    open: u64,
    /// Agents a result of which was taken out.
    quarantined: BTreeSet<u64>,
}

impl Session {
    /// What `arm` plays of the envelope.
    pub(crate) fn new(envelope: &Envelope, arm: &str) -> Self {
        let work = envelope.workload_of(arm);
        let batched = Cache::of_arm(arm).is_some_and(|(_, batched)| batched);
        Self {
            seeded: Seeded::new(work.seed),
            schedule: Schedule::of(&work),
            first_ids: BTreeMap::new(),
            texts: 0,
            script: envelope.script_of(arm),
            kv_pages: envelope.run.kv_pages,
            serial: !batched || work.order == "agents",
            last: None,
            open: 0,
            quarantined: BTreeSet::new(),
            work,
        }
    }

    /// Holds requests that come one by one to the declared order, and agents to what is taken out before they go on. Of agents
    /// that are answered together any may be ahead.
    fn follow_order(&mut self, request: &Request, notes: &mut Notebook) {
        let (agents, turns) = (self.work.agents, self.work.turns_asked());
        let next = match self.last {
            None => (0, 0),
            Some((agent, turn)) if self.work.order == "agents" => {
                if turn.saturating_add(1) < turns {
                    (agent, turn + 1)
                } else {
                    (agent.saturating_add(1), 0)
                }
            }
            Some((agent, turn)) => {
                if agent.saturating_add(1) < agents {
                    (agent + 1, turn)
                } else {
                    (0, turn.saturating_add(1))
                }
            }
        };
        let found = (request.agent, request.turn);
        let follows = found == next && self.open == 0;
        notes.check(Layer::Prompt, follows || !self.serial, || {
            let ((agent, turn), open) = (next, self.open);
            format!("comes out of turn: agent {agent}, turn {turn} is next, and {open} requests have not finished")
        });
        self.last = Some(found);
        self.open += 1;
        let (agent, turn) = found;
        let asked = self.work.quarantine;
        let due = asked.is_some_and(|asked| asked.turn < turn && agent < asked.agents);
        let holds = !due || self.quarantined.contains(&agent);
        notes.check(Layer::Prompt, holds, || {
            format!("agent {agent} goes on before its result is taken out as was declared")
        });
    }

    /// What was declared to be taken out, when it may be: the result of the turn that is over, once.
    pub(crate) fn quarantine(&mut self, cut: &Cut, notes: &mut Notebook) -> Result<(), Stop> {
        let (agent, turn) = cut.of;
        let asked = self.work.quarantine;
        let declared = asked.is_some_and(|asked| asked.turn == turn && agent < asked.agents);
        let new = declared && self.quarantined.insert(agent);
        notes.insist(new, || {
            format!("no quarantine of agent {agent}, turn {turn} was declared, or it was before")
        })?;
        let result_start = cut.prompt_len.saturating_sub(self.work.result);
        notes.same(
            Layer::Prompt,
            "start (of the result)",
            &cut.start,
            &result_start,
        );
        notes.same(
            Layer::Prompt,
            "end (of the result)",
            &cut.end,
            &cut.prompt_len,
        );
        Ok(())
    }

    pub(crate) fn text(&mut self, ids: &[u32], notes: &mut Notebook) {
        self.texts += 1;
        notes.same(Layer::Prompt, "texts stated", &self.texts, &1);
        notes.same(
            Layer::Prompt,
            "length of the prefix",
            &(ids.len() as u64),
            &self.work.prefix,
        );
        let bos_id = self.work.bos_id;
        let first = ids.first().copied().filter(|_| bos_id.is_some());
        notes.same(Layer::Seed, "the text's first id", &first, &bos_id);
        let unused = usize::from(bos_id.is_some());
        check_seeded(self.seeded.is_prefix(ids, unused), ids.len(), notes);
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
        self.follow_order(request, notes);
        self.follow_clock(request, clock, notes);
        self.check_shape(request, base_len, base_of, notes);
        self.check_appended(request, notes);
    }

    /// A request says when it was due where and only where that was declared.
    fn follow_clock(&mut self, request: &Request, clock: (u64, u64), notes: &mut Notebook) {
        let (due_ns, by_clock) = (request.due_ns, self.schedule.is_some());
        notes.check(Layer::Format, due_ns.is_some() == by_clock, || {
            format!("due_ns is {due_ns:?}: it goes together with workload.arrivals")
        });
        if let Some(schedule) = &mut self.schedule {
            schedule.request(request, clock, notes);
        }
    }

    /// What every request of a session is like.
    fn check_shape(
        &self,
        request: &Request,
        base_len: u64,
        base_of: Option<(u64, u64)>,
        notes: &mut Notebook,
    ) {
        let (work, Request { agent, turn, .. }) = (&self.work, request);
        let turns = work.turns_asked();
        let there = *agent < work.agents && *turn < turns;
        notes.check(Layer::Prompt, there, || {
            let agents = work.agents;
            format!("agent {agent}, turn {turn} lies outside the declared {agents} agents and {turns} turns")
        });
        // Which turn of the session it is: it may be asked again.
        let asked = turn % work.turns.max(1);
        let growth = work.decode.saturating_add(work.result);
        let first = oracle::first_prompt(work).unwrap_or(u64::MAX);
        let declared = first.saturating_add(growth.saturating_mul(asked));
        notes.same(
            Layer::Prompt,
            "prompt_len (of the declared shape)",
            &request.prompt_len,
            &declared,
        );
        notes.same(Layer::Prompt, "keep", &request.keep, &base_len);
        notes.same(
            Layer::Prompt,
            "decode_max",
            &request.decode_max,
            &work.decode,
        );
        notes.same(Layer::Prompt, "ignore_eos", &request.ignore_eos, &true);
        notes.same(Layer::Prompt, "worker", &request.worker, &0);
        let continues = match (asked, turn.checked_sub(1)) {
            (0, _) | (_, None) => matches!(request.base, Some(Base::Text(_))),
            (_, Some(before)) => base_of == Some((*agent, before)),
        };
        notes.check(Layer::Prompt, continues, || {
            "base is neither the prefix (first turn) nor the same agent's turn before".to_owned()
        });
        let append = match asked {
            0 => first.saturating_sub(work.prefix),
            _ => work.result,
        };
        notes.same(
            Layer::Prompt,
            "length of append",
            &(request.append.len() as u64),
            &append,
        );
    }

    /// What an agent appends is the seed's, and no other agent's of that turn.
    fn check_appended(&mut self, request: &Request, notes: &mut Notebook) {
        let (agent, turn) = (&request.agent, &request.turn);
        let asked = turn % self.work.turns.max(1);
        let tree = self.work.tree.filter(|_| asked == 0);
        let given = match &tree {
            Some(tree) => self.seeded.is_way(tree, *agent, &request.append),
            None => self.seeded.is_own(*agent, asked, &request.append),
        };
        check_seeded(given, request.append.len(), notes);
        // What begins a way is the first level's, which several agents may share.
        let first = request.append.first().filter(|_| tree.is_none());
        if let Some(first) = first {
            let of_turn = self.first_ids.entry(*turn).or_default();
            let other = of_turn.insert(*first, *agent);
            notes.check(Layer::Prompt, other.is_none(), || {
                format!(
                    "append begins with id {first} as agent {}'s does: transcripts could coincide",
                    other.unwrap_or_default()
                )
            });
        }
    }

    /// A scripted step takes at least its time; what is beyond it is the recording.
    pub(crate) fn step(&self, step: &Step, notes: &mut Notebook) {
        if let Some(script) = &self.script {
            let least_ns = script.least_ns(&step.phase, step.rows);
            notes.check(Layer::Count, step.wall_ns >= least_ns, || {
                format!(
                    "wall_ns is {}, but the step was scripted to take {least_ns} or more",
                    step.wall_ns
                )
            });
            notes.recomputed("scripted steps", 1);
        }
    }

    /// A request got all of its output.
    pub(crate) fn answered(&mut self, request: &str, ids: &[u32], notes: &mut Notebook) {
        self.open = self.open.saturating_sub(1);
        if let Some(schedule) = &mut self.schedule {
            schedule.answered(request);
        }
        let (length, declared) = (ids.len() as u64, &self.work.decode);
        notes.same(Layer::Prompt, "length of ids", &length, declared);
    }

    pub(crate) fn finish(&mut self, finish: &Finish, notes: &mut Notebook) {
        self.answered(&finish.request, &finish.ids, notes);
        if self.script.is_some() {
            let (found, none) = (finish.logits_sha256.as_str(), hash::of_bytes(b""));
            let what = "logits_sha256 (a scripted arm has no logits)";
            notes.same(Layer::Count, what, found, none.as_str());
        }
    }

    /// Compares the sums that are the same in every arm with their closed forms.
    pub(crate) fn sums(&self, requests: u64, logical: u64, decoded: u64, notes: &mut Notebook) {
        let work = &self.work;
        let rows = [
            (
                "requests",
                requests,
                work.agents.checked_mul(work.turns_asked()),
            ),
            ("prompt_len", logical, oracle::logical_tokens(work)),
            ("output ids", decoded, oracle::decode_tokens(work)),
        ];
        for (what, counted, closed_form) in rows {
            let what = format!("the sum of {what} (against the closed form)");
            notes.same(Layer::Count, &what, &Some(counted), &closed_form);
            notes.recomputed("closed forms", 1);
        }
    }

    /// Compares a whole trace's sums with the closed forms of its arm; one that may have had to evict can have computed more.
    pub(crate) fn end(&self, cache: Cache, counted: &Counters, notes: &mut Notebook) {
        let work = &self.work;
        self.sums(counted.requests, counted.logical, counted.decoded, notes);
        let least = cache.prefill_tokens(work);
        let enough = oracle::pages_enough(work).is_some_and(|pages| pages <= self.kv_pages);
        let exact = cache == Cache::None || enough;
        let computed = counted.computed;
        let holds = least.is_some_and(|least| computed == least || (computed > least && !exact));
        notes.check(Layer::Count, holds, || {
            let word = if exact { "exactly" } else { "at least" };
            format!("the sum of computed (against the closed form) is {computed}, expected {word} {least:?}")
        });
        notes.recomputed("closed forms", 1);
        let asked = work.quarantine.filter(|asked| asked.turn < work.turns);
        let (taken_out, declared) = (
            self.quarantined.len() as u64,
            asked.map_or(0, |it| it.agents),
        );
        notes.same(
            Layer::Count,
            "the number of quarantines",
            &taken_out,
            &declared,
        );
    }
}
