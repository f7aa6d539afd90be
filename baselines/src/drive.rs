//! A session, driven: every agent's next turn is submitted as soon as its last one is answered, in the order declared.
//!
//! Not here: which ids a turn appends (`workloads::session`) or what becomes of the events (`recorder`).

use std::collections::VecDeque;
use std::io::Write;

use engine::Request;
use workloads::envelope::{Order, Workload};
use workloads::session::SessionPlan;
use workloads::trace::{Base, Body, ids_sha256};

use crate::arm::Quarantined;
use crate::recorder::Recorder;
use crate::{Arm, Error};

/// The name traces have for the text every agent begins with.
pub(crate) const PREFIX_NAME: &str = "prefix";

/// One agent: everything said so far, and the turn that comes next.
#[derive(Clone)]
struct Agent {
    transcript: Vec<u32>,
    turn: usize,
}

/// What is asked of an arm.
pub(crate) struct Session {
    /// Which ids are said.
    pub(crate) plan: SessionPlan,
    /// By how many, how often.
    pub(crate) workload: Workload,
    /// All agents at once, where their order allows, else one request at a time.
    pub(crate) batched: bool,
}

/// The name traces have for the session of an agent.
pub(crate) fn session_name(agent: usize) -> String {
    format!("a{agent}")
}

/// One step of the arm, which has requests open; what finished, with its output.
pub(crate) fn step<W: Write>(
    arm: &mut dyn Arm,
    recorder: &mut Recorder<'_, W>,
) -> Result<Vec<(u64, Vec<u32>)>, Error> {
    recorder.step_starts();
    let worked = arm.step(recorder)?;
    let finished = recorder.take_finished()?;
    if !worked && finished.is_empty() {
        let open = recorder.open_requests();
        return Err(Error::Contradiction(format!(
            "it stopped with {open} requests open"
        )));
    }
    Ok(finished)
}

/// The name traces have for a turn of an agent.
pub(crate) fn request_name(agent: usize, turn: usize) -> String {
    format!("a{agent}-t{turn}")
}

impl Session {
    /// Drives every agent through every turn. Agents wait in one queue: who has been answered goes to its end, so that a
    /// serial arm goes through the agents turn by turn, or stays at its head where one agent comes after the other.
    pub(crate) fn drive<W: Write>(
        &self,
        arm: &mut dyn Arm,
        recorder: &mut Recorder<'_, W>,
    ) -> Result<(), Error> {
        let (agents_count, order) = (self.workload.agents, self.workload.order);
        let prefix = self.plan.prefix();
        recorder.say(Body::Text {
            name: PREFIX_NAME.to_owned(),
            ids: prefix.clone(),
        })?;
        let start = Agent {
            transcript: prefix,
            turn: 0,
        };
        let mut agents = vec![start; agents_count];
        let mut ready: VecDeque<usize> = (0..agents_count).collect();
        let together = self.batched && order == Order::Turns;
        let open_requests_max = if together { agents_count } else { 1 };
        loop {
            while recorder.open_requests() < open_requests_max
                && let Some(agent) = ready.pop_front()
            {
                self.submit(arm, agent, &mut agents[agent], recorder)?;
            }
            if recorder.open_requests() == 0 {
                return Ok(());
            }
            for (number, ids) in step(arm, recorder)? {
                let index = number as usize % agents_count;
                let agent = &mut agents[index];
                self.quarantine(arm, index, agent, recorder)?;
                agent.transcript.extend(ids);
                agent.turn += 1;
                match order {
                    _ if agent.turn == self.workload.turns => {}
                    Order::Turns => ready.push_back(index),
                    Order::Agents => ready.push_front(index),
                }
            }
        }
    }

    /// Takes out the result that the turn just answered had appended, where the envelope says so; `agent` is as it asked.
    fn quarantine<W: Write>(
        &self,
        arm: &mut dyn Arm,
        index: usize,
        agent: &Agent,
        recorder: &mut Recorder<'_, W>,
    ) -> Result<(), Error> {
        let asked = self.workload.quarantine;
        if asked.is_none_or(|asked| asked.turn != agent.turn || index >= asked.agents) {
            return Ok(());
        }
        let end = agent.transcript.len();
        let start = end - self.workload.result;
        let Quarantined { pages, running } = arm.quarantine(&agent.transcript, start)?;
        recorder.say(Body::Quarantine {
            request: request_name(index, agent.turn),
            start,
            end,
            pages,
            running,
        })
    }

    fn submit<W: Write>(
        &self,
        arm: &mut dyn Arm,
        index: usize,
        agent: &mut Agent,
        recorder: &mut Recorder<'_, W>,
    ) -> Result<(), Error> {
        let (turn, decode_max) = (agent.turn, self.workload.decode);
        let keep = agent.transcript.len();
        let append = self.plan.append(index, turn);
        agent.transcript.extend(&append);
        let number = (turn * self.workload.agents + index) as u64;
        let line = Body::Request {
            id: request_name(index, turn),
            session: session_name(index),
            agent: index,
            turn,
            worker: 0,
            base: Some(match turn.checked_sub(1) {
                None => Base::Text(PREFIX_NAME.to_owned()),
                Some(before) => Base::Request(request_name(index, before)),
            }),
            keep,
            append,
            prompt_len: agent.transcript.len(),
            prompt_sha256: ids_sha256(&agent.transcript),
            decode_max,
            ignore_eos: true,
        };
        recorder.request(number, line)?;
        arm.submit(Request {
            id: number,
            session: index as u64,
            prompt: agent.transcript.clone(),
            decode_max,
            ignore_eos: true,
            priority: (self.workload.agents - index) as i32, // agent 0's text is kept longest
            ..Request::default()
        })
    }
}
