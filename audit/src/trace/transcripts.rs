//! The ids of texts and finished requests, each stored as what it adds to the one it continues.
//!
//! A trace states every id once, and so does this: a session of a thousand turns holds its last transcript, not the sum of
//! all. Not here: requests that have not finished (`request`).

use std::collections::BTreeMap;

use super::Output;
use crate::hash;
use crate::latencies::Times;
use crate::line::Base;

/// Where a transcript stands in the store.
pub(super) type Place = usize;

/// One text or finished request.
pub(super) struct Transcript {
    /// What it continues, and how many ids of that it keeps.
    pub(super) base: Option<Place>,
    pub(super) keep: usize,
    /// Ids appended by the client, then the output.
    pub(super) own: Vec<u32>,
    pub(super) appended: usize,
    /// Agent and turn of a request.
    pub(super) of: Option<(u64, u64)>,
    pub(super) prompt_sha256: String,
    pub(super) logits_sha256: String,
    pub(super) times: Times,
}

impl Transcript {
    /// Ids in all.
    pub(super) fn len(&self) -> usize {
        self.keep + self.own.len()
    }

    /// How many of them have KV: the last output token was never fed.
    pub(super) fn cached(&self) -> usize {
        self.len() - usize::from(self.own.len() > self.appended)
    }
}

/// All of one trace.
#[derive(Default)]
pub(super) struct Transcripts {
    all: Vec<Transcript>,
    texts: BTreeMap<String, Place>,
    requests: BTreeMap<String, Place>,
}

impl Transcripts {
    /// Adds a text; `false` if there is one of this name.
    pub(super) fn add_text(&mut self, name: String, ids: Vec<u32>) -> bool {
        let text = Transcript {
            base: None,
            keep: 0,
            appended: ids.len(),
            own: ids,
            of: None,
            prompt_sha256: String::new(),
            logits_sha256: String::new(),
            times: Times::default(),
        };
        let place = self.all.len();
        self.all.push(text);
        self.texts.insert(name, place).is_none()
    }

    /// Adds a request that has finished.
    pub(super) fn add(&mut self, id: String, transcript: Transcript) {
        self.requests.insert(id, self.all.len());
        self.all.push(transcript);
    }

    pub(super) fn has_finished(&self, id: &str) -> bool {
        self.requests.contains_key(id)
    }

    pub(super) fn text(&self, name: &str) -> Option<Place> {
        self.texts.get(name).copied()
    }

    /// What a base names, if it was stated or has finished.
    pub(super) fn find(&self, base: &Base) -> Option<Place> {
        match base {
            Base::Text(name) => self.text(name),
            Base::Request(id) => self.requests.get(id).copied(),
        }
    }

    pub(super) fn at(&self, place: Place) -> &Transcript {
        &self.all[place]
    }

    /// The first `keep` ids of a transcript.
    pub(super) fn ids(&self, place: Place, keep: usize) -> Vec<u32> {
        let mut pieces = Vec::new();
        let (mut next, mut keep) = (Some(place), keep);
        while let Some(transcript) = next.map(|place| &self.all[place]) {
            let below = keep.min(transcript.keep);
            pieces.push(&transcript.own[..keep - below]);
            (next, keep) = (transcript.base, below);
        }
        pieces.reverse();
        pieces.concat()
    }

    /// By turn: the hash of all ids the client supplied, texts first by name and then appended ids by agent.
    pub(super) fn inputs_sha256(&self) -> BTreeMap<u64, String> {
        let mut of_turn: BTreeMap<u64, BTreeMap<u64, &[u32]>> =
            BTreeMap::from([(0, BTreeMap::new())]);
        for transcript in &self.all {
            if let Some((agent, turn)) = transcript.of {
                let ids = &transcript.own[..transcript.appended];
                of_turn.entry(turn).or_default().insert(agent, ids);
            }
        }
        let texts: Vec<&[u32]> = self.texts.values().map(|it| &*self.all[*it].own).collect();
        let hashed = of_turn.into_iter().map(|(turn, by_agent)| {
            let before = if turn == 0 { &*texts } else { &[] };
            let ids = before
                .iter()
                .copied()
                .chain(by_agent.into_values())
                .flatten();
            (turn, hash::of_ids(ids))
        });
        hashed.collect()
    }

    /// What was answered, by agent and turn.
    pub(super) fn into_outputs(self) -> BTreeMap<(u64, u64), Output> {
        let outputs = self.all.into_iter().filter_map(|mut transcript| {
            let output = Output {
                prompt_sha256: transcript.prompt_sha256,
                ids: transcript.own.split_off(transcript.appended),
                logits_sha256: transcript.logits_sha256,
                times: transcript.times,
            };
            Some((transcript.of?, output))
        });
        outputs.collect()
    }
}
