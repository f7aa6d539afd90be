//! The agents of a session: what each has said so far, whose turn is next, and from when on.
//!
//! Asked by whoever plays a session, to our engine (`drive`) or to another (`server::play`). Not here: which ids a turn
//! appends (`workloads::session`), or any waiting.

use std::collections::VecDeque;

use workloads::envelope::{Order, Workload};
use workloads::session::SessionPlan;
use workloads::trace::{Base, Body, ids_sha256};

/// The name traces have for the text every agent begins with.
pub(crate) const PREFIX_NAME: &str = "prefix";

/// The name traces have for the session of an agent.
pub(crate) fn session_name(agent: usize) -> String {
    format!("a{agent}")
}

/// The name traces have for a turn of an agent.
pub(crate) fn request_name(agent: usize, turn: usize) -> String {
    format!("a{agent}-t{turn}")
}

/// One agent: everything said so far, and the turn that comes next or is being answered.
#[derive(Clone)]
struct Agent {
    transcript: Vec<u32>,
    turn: usize,
}

/// What may be done next.
pub(crate) enum Next {
    /// This agent's request may be made.
    Make(usize),
    /// No request before this time; others may be open.
    NotBefore(u64),
    /// No request until an open one is answered; none is open once all are.
    Answer,
}

/// The agents, and who of them waits to be asked.
pub(crate) struct Fleet {
    plan: SessionPlan,
    workload: Workload,
    agents: Vec<Agent>,
    idle: VecDeque<usize>,
    open: usize,
    open_max: usize,
    /// When each request is due, by number; empty where none comes by the clock.
    due_ns: Vec<u64>,
}

impl Fleet {
    /// Agents that have said nothing; `batched` asks all at once where their order allows, else one at a time. The first
    /// request is due at `start_ns`.
    pub(crate) fn new(plan: SessionPlan, workload: Workload, batched: bool, start_ns: u64) -> Self {
        let count = workload.agents;
        let start = Agent {
            transcript: plan.prefix(),
            turn: 0,
        };
        let together = batched && workload.order == Order::Turns;
        let offsets = workload.arrivals.iter().flat_map(|arrivals| {
            let requests = count * workload.turns_asked();
            arrivals.offsets_ns(workload.seed).take(requests)
        });
        Self {
            due_ns: offsets.map(|ns| start_ns.saturating_add(ns)).collect(),
            agents: vec![start; count],
            idle: (0..count).collect(),
            open: 0,
            open_max: if together { count } else { 1 },
            plan,
            workload,
        }
    }

    /// What may be done at `now_ns`. Agents wait in one queue: who has been answered goes to its end, so that a serial arm
    /// goes through them turn by turn, or stays at its head where one agent comes after the other. By the clock the
    /// earliest due of those that wait is next.
    pub(crate) fn next(&self, now_ns: u64) -> Next {
        if self.open >= self.open_max {
            return Next::Answer;
        }
        if self.due_ns.is_empty() {
            return self
                .idle
                .front()
                .map_or(Next::Answer, |&agent| Next::Make(agent));
        }
        let first = self.idle.iter().min_by_key(|&&agent| self.number(agent));
        match first.map(|&agent| (agent, self.due_ns[self.number(agent)])) {
            None => Next::Answer,
            Some((agent, due_ns)) if due_ns <= now_ns => Next::Make(agent),
            Some((_, due_ns)) => Next::NotBefore(due_ns),
        }
    }

    /// The number of the agent's request among those of all, turn by turn.
    pub(crate) fn number(&self, agent: usize) -> usize {
        self.agents[agent].turn * self.workload.agents + agent
    }

    /// Whose request has this number.
    pub(crate) fn agent_of(&self, number: usize) -> usize {
        number % self.workload.agents
    }

    /// The turn of an agent that comes next or is being answered.
    pub(crate) fn turn(&self, agent: usize) -> usize {
        self.agents[agent].turn
    }

    /// What an agent has said and was answered, with the prompt of an open request.
    pub(crate) fn transcript(&self, agent: usize) -> &[u32] {
        &self.agents[agent].transcript
    }

    /// Makes an agent's request: its transcript is the prompt, and this is the trace's line of it.
    pub(crate) fn make(&mut self, agent: usize) -> Body {
        let number = self.number(agent);
        self.idle.retain(|&waiting| waiting != agent);
        self.open += 1;
        let Agent { transcript, turn } = &mut self.agents[agent];
        let of_session = self.workload.turn_of(*turn);
        if of_session == 0 {
            *transcript = self.plan.prefix(); // asked again, it starts anew
        }
        let keep = transcript.len();
        let append = self.plan.append(agent, of_session);
        transcript.extend(&append);
        Body::Request {
            id: request_name(agent, *turn),
            session: session_name(agent),
            agent,
            turn: *turn,
            worker: 0,
            base: Some(match of_session {
                0 => Base::Text(PREFIX_NAME.to_owned()),
                _ => Base::Request(request_name(agent, *turn - 1)),
            }),
            keep,
            append,
            prompt_len: transcript.len(),
            prompt_sha256: ids_sha256(transcript),
            decode_max: self.workload.decode,
            ignore_eos: true,
            due_ns: self.due_ns.get(number).copied(),
        }
    }

    /// An agent's open request is answered with `ids`, and it waits for its next turn if it has one.
    pub(crate) fn answered(&mut self, agent: usize, ids: &[u32]) {
        self.open -= 1;
        let it = &mut self.agents[agent];
        it.transcript.extend(ids);
        it.turn += 1;
        match self.workload.order {
            _ if it.turn == self.workload.turns_asked() => {}
            Order::Turns => self.idle.push_back(agent),
            Order::Agents => self.idle.push_front(agent),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use workloads::arrivals::{Arrivals, Process};
    use workloads::envelope::Envelope;

    use super::*;

    /// Three agents of `smoke`, whose requests are due at 1000, 2000, ... .
    fn clocked(batched: bool) -> Fleet {
        let workload = Workload {
            arrivals: Some(Arrivals {
                process: Process::Constant,
                interval_us: 1,
            }),
            ..Envelope::named("smoke").unwrap().workload
        };
        let plan = SessionPlan::new(&workload, 0..500).unwrap();
        Fleet::new(plan, workload, batched, 1000)
    }

    /// What may be done, in a word.
    fn word(fleet: &Fleet, now_ns: u64) -> String {
        match fleet.next(now_ns) {
            Next::Make(agent) => format!("a{agent}-t{}", fleet.turn(agent)),
            Next::NotBefore(due_ns) => format!("not before {due_ns}"),
            Next::Answer => "answer".to_owned(),
        }
    }

    #[test]
    fn a_request_comes_no_earlier_than_it_is_due_and_the_earliest_due_comes_first() {
        let mut fleet = clocked(true);
        assert_eq!(word(&fleet, 999), "not before 1000");
        assert_eq!(word(&fleet, 5000), "a0-t0");
        for (agent, due) in [(0, 1000), (1, 2000), (2, 3000)] {
            let Body::Request { due_ns, .. } = fleet.make(agent) else {
                panic!("no request");
            };
            assert_eq!(due_ns, Some(due));
        }
        assert_eq!(word(&fleet, 9000), "answer");
        // Whoever was answered last is still asked first where its turn is due first.
        fleet.answered(2, &[1]);
        assert_eq!(word(&fleet, 5999), "not before 6000");
        fleet.answered(1, &[1]);
        assert_eq!(word(&fleet, 9000), "a1-t1");
    }

    #[test]
    fn an_arm_that_takes_one_at_a_time_is_asked_turn_by_turn_however_late_it_is() {
        let mut fleet = clocked(false);
        let mut order = Vec::new();
        while let Next::Make(agent) = fleet.next(1_000_000) {
            order.push((fleet.turn(agent), agent));
            fleet.make(agent);
            assert_eq!(word(&fleet, 1_000_000), "answer");
            fleet.answered(agent, &[1]);
        }
        assert!(order.is_sorted() && order.len() == 12, "{order:?}");
    }
}
