//! The four streams, the tree they meet and the order that knows it, written from FORMAT.md.
//!
//! Not here: sessions (`forms`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Counts, Stream, by_name};

/// Streams by name.
pub(super) const NAMES: [&str; 4] = ["few-shot", "chat", "tree-of-thought", "agents"];

/// A token: of which text, and which of it.
type Token = (u64, u64);

/// A request: whose, and its prompt.
struct Asked {
    conversation: u64,
    prompt: Vec<Token>,
}

/// Texts: one that is common, and others by number.
const COMMON: u64 = 0;

fn prompt(parts: &[(u64, u64)]) -> Vec<Token> {
    let of_part = |(text, tokens): &(u64, u64)| {
        let text = *text;
        (0..*tokens).map(move |place| (text, place))
    };
    parts.iter().flat_map(of_part).collect()
}

/// The requests of a stream, in the order they come.
fn requests(name: &str) -> Vec<Asked> {
    let asked = |conversation, parts: &[(u64, u64)]| Asked {
        conversation,
        prompt: prompt(parts),
    };
    match name {
        "few-shot" => (0..16)
            .map(|it| asked(it, &[(COMMON, 256), (1 + it, 16)]))
            .collect(),
        "chat" => (1..=8)
            .map(|turn| asked(0, &[(COMMON, 32 + 32 * turn)]))
            .collect(),
        "tree-of-thought" => (0..27)
            .map(|end| {
                let (upper, middle, lower) = (1000 + end / 9, 2000 + end / 3, 3000 + end);
                let parts = [(COMMON, 64), (upper, 16), (middle, 16), (lower, 16)];
                asked(end, &parts)
            })
            .collect(),
        "agents" => (1..=6)
            .flat_map(|step| (0..5).map(move |agent| (step, agent)))
            .map(|(step, agent)| asked(agent, &[(COMMON, 128), (1 + agent, 24 * step)]))
            .collect(),
        _ => Vec::new(),
    }
}

/// The row of a stream; `None` beyond 64 bits, which no stream is.
pub(super) fn row(stream: &Stream) -> Option<Value> {
    let requests = requests(&stream.name);
    let (fused, overtaken_most) = match stream.overtaken_max {
        None => {
            let everybody = |_: &Asked| 0;
            (in_order(&requests, everybody, stream.capacity_tokens), 0)
        }
        Some(most) => by_what_is_found(&requests, most, stream.capacity_tokens),
    };
    let mut arms = vec![("fused", fused.counts), ("naive", from_nothing(&requests))];
    if stream.capacity_tokens.is_none() {
        let kept = in_order(&requests, |it| it.conversation, None);
        arms.push(("agent-kv", kept.counts));
    }
    let Counts {
        prefix_tokens_hit,
        prefill_tokens_logical,
        ..
    } = fused.counts;
    let millionths = prefix_tokens_hit.checked_mul(1_000_000)?;
    Some(json!({
        "name": stream.name, "workers": 1,
        "cache": {
            "capacity_tokens": stream.capacity_tokens,
            "order": if stream.overtaken_max.is_some() { "online" } else { "first-come" },
            "overtaken_max": stream.overtaken_max, "overtaken_most": overtaken_most,
            "evictions": fused.evictions,
            "hit_rate_millionths": millionths.checked_div(prefill_tokens_logical)?,
        },
        "arms": by_name(&arms),
    }))
}

/// What was counted, and leaves that had to go.
#[derive(Clone, Copy, Default)]
struct Tally {
    counts: Counts,
    evictions: u64,
}

impl Tally {
    fn add(&mut self, asked: &Asked, found: u64) {
        let length = asked.prompt.len() as u64;
        let counts = &mut self.counts;
        counts.requests += 1;
        counts.prefill_tokens_logical += length;
        counts.prefill_tokens_computed += length - found;
        counts.prefix_tokens_hit += found;
        // Each computed token attends to all up to itself.
        counts.attended_positions += (found + 1..=length).sum::<u64>();
    }
}

/// Nothing is kept.
fn from_nothing(requests: &[Asked]) -> Counts {
    let mut tally = Tally::default();
    for asked in requests {
        tally.add(asked, 0);
    }
    tally.counts
}

/// Requests as they come, each to the cache that `cache_of` gives it.
fn in_order(requests: &[Asked], cache_of: impl Fn(&Asked) -> u64, room: Option<u64>) -> Tally {
    let mut caches: BTreeMap<u64, Cache> = BTreeMap::new();
    let mut tally = Tally::default();
    for asked in requests {
        let cache = caches.entry(cache_of(asked)).or_default();
        let found = cache.serve(&asked.prompt, room);
        tally.add(asked, found);
        let held: u64 = caches.values().map(Cache::tokens).sum();
        let peak = &mut tally.counts.held_tokens_peak;
        *peak = held.max(*peak);
    }
    tally.evictions = caches.values().map(|it| it.evictions).sum();
    tally
}

/// All requests wait, of each conversation one: whoever may not be overtaken again is served first, the earliest of them;
/// else whoever finds most, the earliest of equals. Whoever waits and came before the one that is served was overtaken.
fn by_what_is_found(requests: &[Asked], most: u64, room: Option<u64>) -> (Tally, u64) {
    let mut cache = Cache::default();
    let mut tally = Tally::default();
    let mut overtaken = vec![0_u64; requests.len()];
    let mut served = vec![false; requests.len()];
    let mut overtaken_most = 0;
    for _ in 0..requests.len() {
        let mut waiting: Vec<usize> = Vec::new();
        for (place, asked) in requests.iter().enumerate().filter(|it| !served[it.0]) {
            let same = |it: &usize| requests[*it].conversation == asked.conversation;
            if !waiting.iter().any(same) {
                waiting.push(place);
            }
        }
        let urgent = waiting.iter().copied().find(|it| overtaken[*it] >= most);
        let mut best: Option<(u64, usize)> = None;
        for place in &waiting {
            let found = cache.finds(&requests[*place].prompt);
            if best.is_none_or(|(other, _)| found > other) {
                best = Some((found, *place));
            }
        }
        let Some(next) = urgent.or(best.map(|it| it.1)) else {
            break;
        };
        for place in waiting.iter().filter(|it| **it < next) {
            overtaken[*place] += 1;
        }
        served[next] = true;
        overtaken_most = overtaken_most.max(overtaken[next]);
        let found = cache.serve(&requests[next].prompt, room);
        tally.add(&requests[next], found);
        let peak = &mut tally.counts.held_tokens_peak;
        *peak = cache.tokens().max(*peak);
    }
    tally.evictions = cache.evictions;
    (tally, overtaken_most)
}

/// A run of tokens behind another, by that one's number.
struct Edge {
    behind: Option<u64>,
    tokens: Vec<Token>,
    touched: u64,
}

/// What is held, as edges by number in the order they were made. No two edges behind the same one begin alike.
#[derive(Default)]
struct Cache {
    edges: BTreeMap<u64, Edge>,
    made: u64,
    now: u64,
    evictions: u64,
}

impl Cache {
    fn tokens(&self) -> u64 {
        self.edges.values().map(|it| it.tokens.len() as u64).sum()
    }

    /// The edges along a text, each with how many of its tokens are the text's.
    fn along(&self, text: &[Token]) -> Vec<(u64, usize)> {
        let (mut way, mut behind, mut at) = (Vec::new(), None, 0);
        while let Some(next) = text.get(at) {
            let mut edges = self.edges.iter();
            let Some((number, edge)) =
                edges.find(|(_, it)| it.behind == behind && it.tokens.first() == Some(next))
            else {
                break;
            };
            let alike = edge.tokens.iter().zip(&text[at..]);
            let common = alike.take_while(|(held, said)| held == said).count();
            way.push((*number, common));
            if common < edge.tokens.len() {
                break;
            }
            (behind, at) = (Some(*number), at + common);
        }
        way
    }

    /// Tokens of the longest beginning that is held.
    fn finds(&self, text: &[Token]) -> u64 {
        self.along(text).iter().map(|it| it.1 as u64).sum()
    }

    /// Finds what is held of a text, holds all of it, and makes room; what was found.
    fn serve(&mut self, text: &[Token], room: Option<u64>) -> u64 {
        let way = self.along(text);
        let found: usize = way.iter().map(|it| it.1).sum();
        self.now += 1;
        for (number, _) in &way {
            if let Some(edge) = self.edges.get_mut(number) {
                edge.touched = self.now;
            }
        }
        if found < text.len() {
            let behind = self.part(&way);
            self.add(behind, text[found..].to_vec());
        }
        while room.is_some_and(|room| self.tokens() > room) {
            let Some(leaf) = self.oldest_leaf() else {
                break;
            };
            self.edges.remove(&leaf);
            self.evictions += 1;
        }
        found as u64
    }

    /// Where the rest of a text goes on: an edge that it leaves midway is parted there, and the part before gets a number.
    fn part(&mut self, way: &[(u64, usize)]) -> Option<u64> {
        let (last, common) = *way.last()?;
        let edge = self.edges.get_mut(&last)?;
        if common == edge.tokens.len() {
            return Some(last);
        }
        let rest = edge.tokens.split_off(common);
        let before = std::mem::replace(&mut edge.tokens, rest);
        let behind = edge.behind;
        let upper = self.add(behind, before);
        if let Some(edge) = self.edges.get_mut(&last) {
            edge.behind = Some(upper);
        }
        Some(upper)
    }

    fn add(&mut self, behind: Option<u64>, tokens: Vec<Token>) -> u64 {
        let edge = Edge {
            behind,
            tokens,
            touched: self.now,
        };
        self.made += 1;
        self.edges.insert(self.made, edge);
        self.made
    }

    /// Of the edges with nothing behind them the one touched longest ago, of equals the one made first.
    fn oldest_leaf(&self) -> Option<u64> {
        let is_leaf = |number: u64| !self.edges.values().any(|it| it.behind == Some(number));
        let leaves = self.edges.iter().filter(|it| is_leaf(*it.0));
        let oldest = leaves.min_by_key(|(number, edge)| (edge.touched, **number));
        oldest.map(|(number, _)| *number)
    }
}
