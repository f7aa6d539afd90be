//! Why requests missed: what each prompt had in common with everything asked before it, and how much of that was found.
//!
//! Not here: what a cache may hold (`workloads::arm`), or the bound the auditor puts on it (`audit`).

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use workloads::trace::{Body, Line};

use crate::sealed::Trace;

/// Why a prompt, or part of it, was not found in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    /// Nobody had asked anything that begins alike.
    First,
    /// The arm keeps nothing between requests.
    NothingKept,
    /// Another agent had it, and the arm shares nothing between agents.
    OutOfReach,
    /// A text in it was quarantined: nothing from there on may be found.
    Quarantined,
    /// Its keys and values had been there, and were evicted.
    Evicted,
    /// It had been asked before and was still being computed.
    NotThere,
    /// All that could be found was; the rest nobody had asked before.
    NewText,
    /// All of it was found.
    Nothing,
}

/// One request, by the tokens of its prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Miss {
    pub(super) request: String,
    pub(super) why: Why,
    pub(super) prompt: usize,
    /// Found in a cache; the first position not found has this number.
    pub(super) matched: usize,
    /// Asked before by someone, and yet computed.
    pub(super) known: usize,
    /// Never asked before.
    pub(super) new: usize,
    /// The last token of the answer before, fed only now.
    pub(super) carried: usize,
    /// Where a quarantined text begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) barred_at: Option<usize>,
}

/// All requests of an arm that missed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Group {
    pub(super) why: Why,
    pub(super) requests: Vec<String>,
    pub(super) matched: usize,
    pub(super) known: usize,
    pub(super) new: usize,
    pub(super) carried: usize,
    /// The one that missed most.
    pub(super) example: Miss,
}

/// Every request of a trace by the reason it missed.
pub(super) fn of(trace: &Trace) -> Vec<Group> {
    let mut groups: BTreeMap<Why, Group> = BTreeMap::new();
    for miss in misses(trace) {
        let group = groups.entry(miss.why).or_insert_with(|| Group {
            why: miss.why,
            requests: Vec::new(),
            matched: 0,
            known: 0,
            new: 0,
            carried: 0,
            example: miss.clone(),
        });
        group.requests.push(miss.request.clone());
        group.matched += miss.matched;
        group.known += miss.known;
        group.new += miss.new;
        group.carried += miss.carried;
        if miss.prompt - miss.matched > group.example.prompt - group.example.matched {
            group.example = miss;
        }
    }
    groups.into_values().collect()
}

/// Every request in the order it was admitted.
fn misses(trace: &Trace) -> Vec<Miss> {
    let cache = trace.lines.first().and_then(|line| match &line.body {
        Body::Begin { settings, .. } => Some(settings.cache.as_str()),
        _ => None,
    });
    let (mut prompts, carried) = (trace.prompts(), carried(&trace.lines));
    let sessions = sessions(&trace.lines);
    // What each session said last holds all it said before.
    let mut said: HashMap<&str, Said> = HashMap::new();
    // From being made to being admitted.
    let mut waiting: HashMap<&str, Vec<u32>> = HashMap::new();
    let mut misses = Vec::new();
    for line in &trace.lines {
        let made = prompts.next(line);
        match &line.body {
            Body::Request { id, .. } => waiting.extend(made.map(|prompt| (id.as_str(), prompt))),
            Body::Prefix {
                request,
                matched,
                barred_at,
                ..
            } => {
                let Some((prompt, session)) = waiting
                    .remove(request.as_str())
                    .zip(sessions.get(request.as_str()))
                else {
                    continue;
                };
                let own = said.get(session).map(|said| said.common(&prompt));
                let own = own.unwrap_or_default();
                let of_any = said.values().map(|said| said.common(&prompt));
                let any = of_any.fold(own, |a, b| (a.0.max(b.0), a.1.max(b.1)));
                let mut miss = Miss {
                    request: request.clone(),
                    why: Why::Nothing,
                    prompt: prompt.len(),
                    matched: *matched,
                    known: 0,
                    new: 0,
                    carried: carried.get(request.as_str()).copied().unwrap_or(0),
                    barred_at: *barred_at,
                };
                miss.known = any.0.saturating_sub(miss.matched + miss.carried);
                miss.new = miss.prompt - miss.matched - miss.carried - miss.known;
                miss.why = why(&miss, cache, any, own);
                misses.push(miss);
                said.entry(session).or_default().text = prompt;
            }
            Body::Prefill { request, .. } => {
                let session = sessions.get(request.as_str());
                if let Some(said) = session.and_then(|session| said.get_mut(session)) {
                    said.written = said.text.len();
                }
            }
            Body::Finish { request, ids, .. } => {
                let session = sessions.get(request.as_str());
                if let Some(said) = session.and_then(|session| said.get_mut(session)) {
                    said.text.extend(ids);
                    said.written = said.text.len() - 1; // the last token was never fed
                }
            }
            _ => {}
        }
    }
    misses
}

/// What a session has said, and how much of it had keys and values at some time.
#[derive(Default)]
struct Said {
    text: Vec<u32>,
    written: usize,
}

impl Said {
    /// Positions that a prompt has in common with it, and how many of them were written.
    fn common(&self, prompt: &[u32]) -> (usize, usize) {
        let pairs = self.text.iter().zip(prompt);
        let common = pairs.take_while(|(said, asked)| said == asked).count();
        (common, common.min(self.written))
    }
}

/// Of the prompt so many positions were asked before, and so many written: by anyone, and by the same session.
fn why(miss: &Miss, cache: Option<&str>, any: (usize, usize), own: (usize, usize)) -> Why {
    let in_reach = if cache == Some("session") { own } else { any };
    match cache {
        _ if miss.matched == miss.prompt => Why::Nothing,
        _ if any.0 == 0 => Why::First,
        Some("none") => Why::NothingKept,
        _ if miss.barred_at.is_some() => Why::Quarantined,
        _ if in_reach.1 > miss.matched => Why::Evicted,
        Some("session") if any.0 > own.0 && miss.known > 0 => Why::OutOfReach,
        _ if miss.known > 0 => Why::NotThere,
        _ => Why::NewText,
    }
}

fn carried(lines: &[Line]) -> HashMap<&str, usize> {
    let bodies = lines.iter().map(|line| &line.body);
    let carried = bodies.filter_map(|body| match body {
        Body::Prefill {
            request, carried, ..
        } => Some((request.as_str(), *carried)),
        _ => None,
    });
    carried.collect()
}

fn sessions(lines: &[Line]) -> HashMap<&str, &str> {
    let bodies = lines.iter().map(|line| &line.body);
    let sessions = bodies.filter_map(|body| match body {
        Body::Request { id, session, .. } => Some((id.as_str(), session.as_str())),
        _ => None,
    });
    sessions.collect()
}
