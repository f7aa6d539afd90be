//! The requests that kinds of work make: sessions of agents, and the four streams that radix caches are shown on.
//!
//! Spans have ids of their own, so that nothing coincides by chance. Not here: sessions of a data set (`crate::datasets`).

use super::{Request, Span};
use crate::oracle::Shape;

/// What a span stands for, so that no two that differ have one id.
#[derive(Clone, Copy)]
enum Says {
    Common,
    Own,
    Answer,
    Branch,
}

/// The id of a span: what it is, whose, and which.
fn id(says: Says, whose: u64, which: u64) -> u64 {
    ((says as u64) << 62) | (whose << 32) | which
}

/// A token of a text, for streams that are matched token by token.
fn token(text: u64, place: u64) -> Span {
    Span {
        id: (text << 32) | place,
        tokens: 1,
    }
}

/// A text of so many tokens, each a span.
fn text(text: u64, tokens: u64) -> impl Iterator<Item = Span> {
    (0..tokens).map(move |place| token(text, place))
}

/// Bits of an agent's number, where those of a task stand above.
const AGENT_BITS: u32 = 12;

/// Agents that share a prefix and take turns: every agent's turn before anybody's next. `task` tells apart streams that are
/// replayed together, of which nothing is alike. Agents are dealt to `shape.workers` round robin.
pub fn session(shape: &Shape, task: u64) -> impl Iterator<Item = Request> + use<> {
    let shape = *shape;
    let passes = (0..shape.passes.max(1)).flat_map(move |_| 0..shape.turns);
    let turns = passes.flat_map(move |turn| (0..shape.agents).map(move |it| (turn, it)));
    turns.map(move |(turn, agent)| {
        let span = |says, which, tokens| Span {
            id: id(says, task << AGENT_BITS | agent, which),
            tokens,
        };
        let mut prompt = vec![Span {
            id: id(Says::Common, task, 0),
            tokens: shape.prefix,
        }];
        let ways = shape.tree.iter().flat_map(|tree| {
            let nodes = tree.way(agent as usize);
            nodes.map(|(level, node)| Span {
                id: id(Says::Branch, task << AGENT_BITS | node as u64, level as u64),
                tokens: tree.tokens as u64,
            })
        });
        prompt.extend(ways);
        for before in 0..turn {
            prompt.push(span(Says::Answer, before, shape.decode));
            prompt.push(span(Says::Own, before, shape.result));
        }
        prompt.retain(|span| span.tokens > 0);
        let answer = span(Says::Answer, turn, shape.decode);
        Request {
            worker: agent % shape.workers.max(1),
            session: task << AGENT_BITS | agent,
            prompt,
            answer: Some(answer).filter(|span| span.tokens > 0),
        }
    })
}

/// One of the four streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radix {
    /// 16 questions of 16 tokens behind a preamble of 256.
    FewShot,
    /// 8 turns, each of 32 tokens more, from 64 on.
    Chat,
    /// A tree of thoughts from a root of 64 tokens: three of 16 at each of three depths, a request for each of the 27 ends.
    TreeOfThought,
    /// 5 agents on a system prompt of 128 tokens, 6 steps of 24 each, step by step.
    Agents,
}

impl Radix {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FewShot, Self::Chat, Self::TreeOfThought, Self::Agents];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::FewShot => "few-shot",
            Self::Chat => "chat",
            Self::TreeOfThought => "tree-of-thought",
            Self::Agents => "agents",
        }
    }

    /// Its requests, of tokens that are spans of their own; nothing is answered.
    pub fn requests(self) -> Vec<Request> {
        match self {
            Self::FewShot => (0..16)
                .map(|question| asked(question, text(0, 256).chain(text(1 + question, 16))))
                .collect(),
            Self::Chat => (1..=8)
                .map(|turns| asked(0, text(0, 32 + 32 * turns)))
                .collect(),
            Self::TreeOfThought => (0..27).map(thought).collect(),
            Self::Agents => (1..=6)
                .flat_map(|steps| (0..5).map(move |agent| (steps, agent)))
                .map(|(steps, agent)| asked(agent, text(0, 128).chain(text(1 + agent, 24 * steps))))
                .collect(),
        }
    }
}

fn asked(session: u64, prompt: impl Iterator<Item = Span>) -> Request {
    Request {
        session,
        prompt: prompt.collect(),
        ..Request::default()
    }
}

/// The way to one end of the tree, whose three digits of base 3 are the branches taken.
fn thought(end: u64) -> Request {
    let steps = [end / 9, end / 3, end];
    let names = steps.iter().zip([1, 10, 100]);
    let segments = names.flat_map(|(step, level)| text(level + step, 16));
    asked(end, text(0, 64).chain(segments))
}
