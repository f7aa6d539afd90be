//! What clients said so far: prompts rebuilt from their parts, sessions followed turn by turn, ids held within a limit.
//!
//! The same whoever answers. Not here: what was answered from which cache (`request`, `server`).

use std::collections::BTreeMap;

use super::Output;
use super::transcripts::{Place, Transcript, Transcripts};
use crate::hash;
use crate::line::{Request, Text};
use crate::notebook::{Layer, Notebook, Stop};

/// Ids one trace may make us hold (half a GiB of them): those it states, the prompts of open requests, and what the
/// caches held.
const MAX_IDS_HELD: usize = 1 << 27;

/// All of one trace.
#[derive(Default)]
pub(crate) struct Prompts {
    /// Texts and finished requests.
    pub(super) transcripts: Transcripts,
    /// By session: its agent, its next turn, and whether a turn is running.
    sessions: BTreeMap<String, Progress>,
    /// By agent: its session.
    agents: BTreeMap<u64, String>,
    /// Ids held now.
    ids_held: usize,
}

/// How far a session has come.
struct Progress {
    agent: u64,
    next_turn: u64,
    running: bool,
}

/// A request with its prompt.
pub(crate) struct Prompted {
    pub(crate) request: Request,
    /// What it continues.
    pub(super) base: Option<Place>,
    pub(crate) base_len: u64,
    /// Agent and turn of that, if it is a request.
    pub(crate) base_of: Option<(u64, u64)>,
    /// The prompt.
    pub(crate) ids: Vec<u32>,
}

impl Prompts {
    /// Refuses a trace that would make us hold more ids than the limit.
    pub(crate) fn hold(&mut self, ids: usize, notes: &mut Notebook) -> Result<(), Stop> {
        self.ids_held = self.ids_held.saturating_add(ids);
        notes.insist(self.ids_held <= MAX_IDS_HELD, || {
            format!("the trace holds more than the limit of {MAX_IDS_HELD} ids")
        })
    }

    pub(crate) fn text(&mut self, text: Text, notes: &mut Notebook) -> Result<(), Stop> {
        self.hold(text.ids.len(), notes)?;
        let new = self.transcripts.add_text(text.name, text.ids);
        notes.insist(new, || "a text of this name was stated before".to_owned())
    }

    /// The ids of a text.
    pub(crate) fn text_named(&self, name: &str) -> Option<Vec<u32>> {
        let place = self.transcripts.text(name)?;
        Some(
            self.transcripts
                .ids(place, self.transcripts.at(place).len()),
        )
    }

    pub(crate) fn has_finished(&self, id: &str) -> bool {
        self.transcripts.has_finished(id)
    }

    pub(super) fn has_session(&self, session: &str) -> bool {
        self.sessions.contains_key(session)
    }

    /// The prompt of a request, which comes when it may.
    pub(crate) fn ask(&mut self, request: Request, notes: &mut Notebook) -> Result<Prompted, Stop> {
        self.follow_turns(&request, notes)?;
        let base = self.base(&request, notes)?;
        let (base_len, base_of) = base.map_or((0, None), |place| {
            let base = self.transcripts.at(place);
            (base.len(), base.of)
        });
        let keep = usize::try_from(request.keep).ok();
        let Some(keep) = keep.filter(|keep| *keep <= base_len) else {
            let keep = request.keep;
            return Err(notes.stop(format!("keep is {keep}, the base has {base_len} ids")));
        };
        let appended = request.append.len();
        self.hold(keep.saturating_add(2 * appended), notes)?; // the prompt, and what it appends for later
        let mut ids = base.map_or(Vec::new(), |place| self.transcripts.ids(place, keep));
        ids.extend_from_slice(&request.append);
        let (length, sha256) = (ids.len() as u64, hash::of_ids(&ids));
        notes.same(Layer::Prompt, "prompt_len", &request.prompt_len, &length);
        let stated = &request.prompt_sha256;
        notes.same(Layer::Prompt, "prompt_sha256", stated, &sha256);
        notes.recomputed("prompts", 1);
        Ok(Prompted {
            request,
            base,
            base_len: base_len as u64,
            base_of,
            ids,
        })
    }

    /// Holds every session to one agent and to turns in order, each after the finish of the one before.
    fn follow_turns(&mut self, request: &Request, notes: &mut Notebook) -> Result<(), Stop> {
        let Request {
            session,
            agent,
            turn,
            ..
        } = request;
        let of_agent = self.agents.entry(*agent).or_insert_with(|| session.clone());
        notes.insist(of_agent == session, || {
            format!("agent {agent} has two sessions, {of_agent:?} and {session:?}")
        })?;
        let start = Progress {
            agent: *agent,
            next_turn: 0,
            running: false,
        };
        let progress = self.sessions.entry(session.clone()).or_insert(start);
        let next = (progress.agent, progress.next_turn);
        notes.insist(next == (*agent, *turn), || {
            let (agent, turn) = next;
            format!("session {session:?} continues with agent {agent}, turn {turn}")
        })?;
        notes.insist(!progress.running, || {
            format!("turn {turn} of {session:?} precedes the finish of the turn before")
        })?;
        progress.running = true;
        progress.next_turn += 1;
        Ok(())
    }

    fn base(&self, request: &Request, notes: &mut Notebook) -> Result<Option<Place>, Stop> {
        let Some(base) = &request.base else {
            return Ok(None);
        };
        let place = self.transcripts.find(base);
        place.map(Some).ok_or_else(|| {
            notes.stop(format!(
                "base: {base:?} was not stated or has not finished before"
            ))
        })
    }

    /// Keeps of a request that was answered what later ones and other traces need, and gives the rest back. The ids that
    /// now have keys and values, which are its prompt and all of its output but the last, and whose they are.
    pub(crate) fn answered(&mut self, prompted: Prompted, output: Output) -> (String, Vec<u32>) {
        let Prompted {
            request,
            base,
            mut ids,
            ..
        } = prompted;
        let (prompt_len, appended) = (ids.len(), request.append.len());
        self.ids_held = self.ids_held.saturating_sub(prompt_len);
        if let Some(progress) = self.sessions.get_mut(&request.session) {
            progress.running = false;
        }
        ids.extend_from_slice(&output.ids);
        ids.truncate(ids.len() - usize::from(!output.ids.is_empty()));
        let transcript = Transcript {
            base,
            keep: prompt_len - appended,
            own: [&*request.append, &*output.ids].concat(),
            appended,
            of: Some((request.agent, request.turn)),
            prompt_sha256: output.prompt_sha256,
            logits_sha256: output.logits_sha256,
            times: output.times,
        };
        self.transcripts.add(request.id, transcript);
        (request.session, ids)
    }

    /// By turn: the hash of all ids the client supplied, texts first by name and then appended ids by agent.
    pub(crate) fn inputs_sha256(&self) -> BTreeMap<u64, String> {
        self.transcripts.inputs_sha256()
    }

    /// What was answered, by agent and turn.
    pub(crate) fn into_outputs(self) -> BTreeMap<(u64, u64), Output> {
        self.transcripts.into_outputs()
    }
}
