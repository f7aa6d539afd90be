//! A session, driven: every agent's next turn is submitted as soon as its last one is answered.
//!
//! Not here: which ids a turn appends (`workloads::session`) or what becomes of the events (`recorder`).

use std::collections::VecDeque;
use std::io::Write;

use engine::Request;
use workloads::envelope::Workload;
use workloads::session::SessionPlan;
use workloads::trace::{Base, Body, ids_sha256};

use crate::recorder::Recorder;
use crate::{Arm, Error};

const PREFIX_NAME: &str = "prefix";

/// One agent: everything said so far, and the turn that comes next.
#[derive(Clone)]
struct Agent {
    transcript: Vec<u32>,
    turn: usize,
}

/// Drives every agent through every turn: all agents at once where `batched`, else one request at a
/// time. Agents wait in one queue, so a serial arm goes through the agents turn by turn.
pub(crate) fn session<W: Write>(
    arm: &mut dyn Arm,
    plan: &SessionPlan,
    workload: &Workload,
    batched: bool,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    let prefix = plan.prefix();
    recorder.say(Body::Text {
        name: PREFIX_NAME.to_owned(),
        ids: prefix.clone(),
    })?;
    let mut agents = vec![
        Agent {
            transcript: prefix,
            turn: 0
        };
        workload.agents
    ];
    let mut ready: VecDeque<usize> = (0..workload.agents).collect();
    let open_requests_max = if batched { workload.agents } else { 1 };
    loop {
        while recorder.open_requests() < open_requests_max
            && let Some(agent) = ready.pop_front()
        {
            submit(arm, plan, workload, agent, &mut agents[agent], recorder)?;
        }
        if recorder.open_requests() == 0 {
            return Ok(());
        }
        recorder.step_starts();
        let worked = arm.step(recorder)?;
        let finished = recorder.take_finished()?;
        if !worked && finished.is_empty() {
            let open = recorder.open_requests();
            return Err(Error::Contradiction(format!(
                "it stopped with {open} requests open"
            )));
        }
        for (number, ids) in finished {
            let index = number as usize % workload.agents;
            let agent = &mut agents[index];
            agent.transcript.extend(ids);
            agent.turn += 1;
            if agent.turn < workload.turns {
                ready.push_back(index);
            }
        }
    }
}

fn submit<W: Write>(
    arm: &mut dyn Arm,
    plan: &SessionPlan,
    workload: &Workload,
    index: usize,
    agent: &mut Agent,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    let turn = agent.turn;
    let keep = agent.transcript.len();
    let append = plan.append(index, turn);
    agent.transcript.extend(&append);
    let number = (turn * workload.agents + index) as u64;
    let name = |turn: usize| format!("a{index}-t{turn}");
    let line = Body::Request {
        id: name(turn),
        session: format!("a{index}"),
        agent: index,
        turn,
        worker: 0,
        base: Some(match turn.checked_sub(1) {
            None => Base::Text(PREFIX_NAME.to_owned()),
            Some(before) => Base::Request(name(before)),
        }),
        keep,
        append,
        prompt_len: agent.transcript.len(),
        prompt_sha256: ids_sha256(&agent.transcript),
        decode_max: workload.decode,
        ignore_eos: true,
    };
    recorder.request(number, line)?;
    arm.submit(Request {
        id: number,
        session: index as u64,
        prompt: agent.transcript.clone(),
        decode_max: workload.decode,
        ignore_eos: true,
        ..Request::default()
    })
}
