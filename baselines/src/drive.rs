//! A session, driven: every agent's turn is submitted to our engine as soon as it may be.
//!
//! Not here: whose turn that is (`fleet`) or what becomes of the events (`recorder`).

use std::io::Write;
use std::time::Duration;

use engine::Request;
use workloads::envelope::Workload;
use workloads::session::SessionPlan;
use workloads::trace::Body;

use crate::arm::Quarantined;
use crate::fleet::{Fleet, Next, PREFIX_NAME, request_name};
use crate::recorder::Recorder;
use crate::{Arm, Error};

/// What is asked of an arm.
pub(crate) struct Session {
    /// Which ids are said.
    pub(crate) plan: SessionPlan,
    /// By how many, how often.
    pub(crate) workload: Workload,
    /// All agents at once, where their order allows, else one request at a time.
    pub(crate) batched: bool,
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

impl Session {
    /// Drives every agent through every turn.
    pub(crate) fn drive<W: Write>(
        &self,
        arm: &mut dyn Arm,
        recorder: &mut Recorder<'_, W>,
    ) -> Result<(), Error> {
        let ids = self.plan.prefix();
        let name = PREFIX_NAME.to_owned();
        recorder.say(Body::Text { name, ids })?;
        let (plan, workload) = (self.plan.clone(), self.workload.clone());
        let mut fleet = Fleet::new(plan, workload, self.batched, recorder.now());
        loop {
            let now_ns = recorder.now();
            match fleet.next(now_ns) {
                Next::Make(agent) => {
                    self.submit(arm, agent, &mut fleet, recorder)?;
                    continue;
                }
                Next::NotBefore(due_ns) if recorder.open_requests() == 0 => {
                    std::thread::sleep(Duration::from_nanos(due_ns - now_ns));
                    continue;
                }
                Next::Answer if recorder.open_requests() == 0 => return Ok(()),
                Next::NotBefore(_) | Next::Answer => {}
            }
            for (number, ids) in step(arm, recorder)? {
                let agent = fleet.agent_of(number as usize);
                self.quarantine(arm, agent, &fleet, recorder)?;
                fleet.answered(agent, &ids);
            }
        }
    }

    /// Takes out the result that the turn just answered had appended, where the envelope says so.
    fn quarantine<W: Write>(
        &self,
        arm: &mut dyn Arm,
        agent: usize,
        fleet: &Fleet,
        recorder: &mut Recorder<'_, W>,
    ) -> Result<(), Error> {
        let asked = self.workload.quarantine;
        let turn = fleet.turn(agent);
        if asked.is_none_or(|asked| asked.turn != turn || agent >= asked.agents) {
            return Ok(());
        }
        let prompt = fleet.transcript(agent);
        let end = prompt.len();
        let start = end - self.workload.result;
        let Quarantined { pages, running } = arm.quarantine(prompt, start)?;
        recorder.say(Body::Quarantine {
            request: request_name(agent, turn),
            start,
            end,
            pages,
            running,
        })
    }

    fn submit<W: Write>(
        &self,
        arm: &mut dyn Arm,
        agent: usize,
        fleet: &mut Fleet,
        recorder: &mut Recorder<'_, W>,
    ) -> Result<(), Error> {
        let number = fleet.number(agent) as u64;
        let line = fleet.make(agent);
        recorder.request(number, line)?;
        arm.submit(Request {
            id: number,
            session: agent as u64,
            prompt: fleet.transcript(agent).to_vec(),
            decode_max: self.workload.decode,
            ignore_eos: true,
            priority: (self.workload.agents - agent) as i32, // agent 0's text is kept longest
            ..Request::default()
        })
    }
}
