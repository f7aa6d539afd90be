//! An answer as it adds up: its pieces with their times, and whether it is what was asked for.
//!
//! Not here: what an event means (`protocol`), reading it (`client`), or whether the tokens are good ones (`score`).

use super::client::Prepared;
use super::protocol::{Channel, Prompt, Said, Shape, Told, quoted};
use crate::Error;

/// An answer that came to its end, and is what was asked for.
#[derive(Debug)]
pub struct Completed {
    /// How long connecting took, which is part of the times of pieces.
    pub connect_ns: u64,
    /// Of HTTP.
    pub status: u16,
    /// Its tokens; none where the server says only text.
    pub ids: Vec<u32>,
    /// When each piece with tokens came, by the clock.
    pub chunk_t_ns: Vec<u64>,
    /// How many tokens each piece had; empty where nobody can know, and then nothing can be said of times between tokens.
    pub chunk_tokens: Vec<usize>,
    /// Which channel each piece came in.
    pub chunk_channels: Vec<Channel>,
    /// What the server says of it.
    pub told: Told,
}

impl Completed {
    /// Whether each piece was one token, so that times between pieces are times between tokens.
    pub fn one_token_each(&self) -> bool {
        !self.chunk_tokens.is_empty() && self.chunk_tokens.iter().all(|tokens| *tokens == 1)
    }

    /// When the first piece came that is for whoever asked.
    pub fn content_t_ns(&self) -> Option<u64> {
        let mut pieces = self.chunk_channels.iter().zip(&self.chunk_t_ns);
        pieces
            .find(|(channel, _)| **channel == Channel::Content)
            .map(|(_, t_ns)| *t_ns)
    }

    /// The channels it came in, in words.
    pub fn channels(&self) -> &'static str {
        let has = |wanted| self.chunk_channels.contains(&wanted);
        match (has(Channel::Content), has(Channel::Reasoning)) {
            (true, true) => "content and reasoning",
            (false, true) => "reasoning",
            (true, false) => "content",
            (false, false) => "none",
        }
    }
}

/// An answer that has begun.
#[derive(Default)]
pub(super) struct Answer {
    ids: Vec<u32>,
    chunk_t_ns: Vec<u64>,
    chunk_tokens: Vec<Option<usize>>,
    chunk_channels: Vec<Channel>,
    pub(super) told: Told,
    pub(super) over: bool,
}

impl Answer {
    /// Takes an event. More tokens than were asked for end it, so that nobody fills our memory.
    pub(super) fn take(&mut self, said: Said, t_ns: u64, decode: usize) -> Result<(), Error> {
        if self.over && said.piece.is_some() {
            return wrong("it went on after it had said that its answer is over");
        }
        self.over |= said.over;
        let Some(piece) = said.piece else {
            return Ok(());
        };
        self.chunk_t_ns.push(t_ns);
        self.chunk_tokens.push(piece.tokens);
        self.chunk_channels.push(piece.channel);
        self.ids.extend(piece.ids);
        let least = self.ids.len().max(self.chunk_t_ns.len());
        if least > decode.max(1) {
            return wrong(format!(
                "it answers with more than the {decode} tokens asked for"
            ));
        }
        Ok(())
    }

    /// How far it came, for whoever tells that it broke off.
    pub(super) fn progress(&self) -> String {
        match (self.ids.len(), self.chunk_t_ns.len()) {
            (0, 0) => "before its first token".to_owned(),
            (0, pieces) => format!("after {pieces} pieces of text"),
            (ids, _) => format!("after {ids} tokens"),
        }
    }

    /// The whole answer, if it is what was asked for.
    pub(super) fn completed(
        self,
        connect_ns: u64,
        status: u16,
        prepared: &Prepared,
        shape: &Shape,
    ) -> Result<Completed, Error> {
        check_prompt(&self.told, prepared, shape)?;
        let chunk_tokens = self.counted(prepared.decode)?;
        if prepared.decode > 0 {
            self.check_length(prepared.decode, shape)?;
        }
        Ok(Completed {
            connect_ns,
            status,
            ids: self.ids,
            chunk_t_ns: self.chunk_t_ns,
            chunk_tokens,
            chunk_channels: self.chunk_channels,
            told: self.told,
        })
    }

    /// How many tokens each piece has. Where no piece says so, each has one at least and usage says how many in all, which
    /// is enough if there is one piece only or as many as there are tokens.
    fn counted(&self, decode: usize) -> Result<Vec<usize>, Error> {
        let pieces = self.chunk_t_ns.len();
        let known: Vec<usize> = self.chunk_tokens.iter().copied().flatten().collect();
        if known.len() == pieces {
            return Ok(known);
        }
        if !known.is_empty() {
            return wrong("some pieces of its answer have token ids and some have none");
        }
        match self.told.answered {
            None => wrong(
                "it says neither which tokens it answered with nor how many (its usage is missing), so they cannot be \
                 counted",
            ),
            Some(answered) if answered < pieces || answered > decode.max(1) => wrong(format!(
                "its usage says {answered} tokens, {decode} were asked for and {pieces} pieces of text came: they \
                 contradict each other"
            )),
            Some(answered) if answered == pieces => Ok(vec![1; pieces]),
            Some(answered) if pieces == 1 => Ok(vec![answered]),
            Some(_) => Ok(Vec::new()),
        }
    }

    /// Refuses another number of tokens than was asked for, or than the server says it gave. Asked for none, servers
    /// count one.
    fn check_length(&self, decode: usize, shape: &Shape) -> Result<(), Error> {
        let (told, reason) = (&self.told, quoted(&self.told.reason));
        if self.chunk_t_ns.is_empty() {
            return wrong(format!(
                "its answer is over ({reason:?}) without a token; {decode} were asked for"
            ));
        }
        let (ids, answered) = (self.ids.len(), told.answered);
        if let Some(answered) = answered.filter(|answered| ids > 0 && *answered != ids) {
            return wrong(format!(
                "its usage says {answered} tokens, and {ids} came: they contradict each other"
            ));
        }
        let found = if ids > 0 { ids } else { answered.unwrap_or(0) };
        if found != decode || reason != "length" {
            let why = if shape.ignores_eos {
                "is ignore_eos ignored?"
            } else {
                "it cannot be asked to go on past the end of a text; lower the tokens asked for"
            };
            return wrong(format!(
                "it answered with {found} tokens of {decode} and ended with {reason:?}: {why}"
            ));
        }
        match told.reasoning {
            Some(reasoning) if reasoning > found => wrong(format!(
                "its usage says {reasoning} tokens of reasoning among {found} tokens: they contradict each other"
            )),
            _ => Ok(()),
        }
    }
}

/// Refuses counts of a prompt that cannot be, and a prompt that is not the one that was sent.
fn check_prompt(told: &Told, prepared: &Prepared, shape: &Shape) -> Result<(), Error> {
    let sent = &prepared.ids;
    let most = match shape.prompt {
        Prompt::Message => told.prompt,
        Prompt::Ids(_) | Prompt::Text => Some(sent.len()),
    };
    let found = told.cached.unwrap_or(0);
    let parts = found.saturating_add(told.written.unwrap_or(0));
    if let Some(most) = most.filter(|most| parts > *most) {
        return wrong(format!(
            "it says it found {found} tokens of the prompt in its cache ({parts} with those written to it), and the \
             prompt has {most}: that cannot be"
        ));
    }
    if let (Some(counted), false) = (told.prompt, shape.prompt == Prompt::Message)
        && counted != sent.len()
    {
        let why = match shape.prompt {
            Prompt::Text => {
                "it was cut to the context (raise num_ctx), or is split into other tokens there, or what was cached is \
                 not counted (take a newer version)"
            }
            _ => "the ids were not taken as they are",
        };
        let sent = sent.len();
        return wrong(format!(
            "it counts {counted} tokens in a prompt of {sent}: {why}"
        ));
    }
    match &told.accepted {
        Some(accepted) if accepted != sent => {
            wrong("the prompt's ids as it repeats them are not those that were sent")
        }
        _ => Ok(()),
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::External(what.into()))
}
