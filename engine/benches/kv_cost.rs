//! What the tree of cached pages costs, in instructions: finding a long prompt among many pages, and evicting.
//!
//! `cargo bench -p engine --bench kv_cost` runs itself under callgrind and fails where a bound is not held: a match of
//! 8192 tokens among 100 000 pages takes at most three times a plain comparison of the same ids, an eviction among 100 000
//! pages at most twice one among 1000. Counts are the same on every machine and under any load. Not here: time, or what
//! the forward pass costs.
#![allow(clippy::print_stdout)] // a bench says what it measured

mod common;

use std::hint::black_box;
use std::process::ExitCode;

use common::counted;
use engine::kv::policy::Recompute;
use engine::kv::radix::common_prefix;
use engine::kv::{Eviction, NodeId, Owner, PageId, PagePool, RadixTree, Scope, Writer};
use engine::tensor::PAGE_POSITIONS;

/// Ids of the prompt that is looked for.
const PROMPT: usize = 8192;
/// Pages of the prompt beside which others stand: planting deeper ones would take valgrind minutes.
const BRANCHED: usize = 16;
/// Calls of the shorter and the longer run.
const FINDS: [u64; 2] = [10, 110];
const EVICTIONS: [u64; 2] = [100, 600];
/// Bounds of the ratios.
const FIND_MAX: f64 = 3.0;
const EVICT_MAX: f64 = 2.0;

/// A tree of a given number of pages, and the prompt it holds.
struct Planted {
    pool: PagePool,
    tree: RadixTree,
    scope: Scope,
    prompt: Vec<u32>,
}

fn owner(scope: &Scope) -> Owner<'_> {
    Owner {
        scope,
        session: None,
    }
}

/// Ids that begin differently for every seed.
fn ids(len: usize, seed: u64) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as u32
    };
    (0..len).map(|_| next()).collect()
}

impl Planted {
    /// The prompt's pages, and at each of its first depths as many single pages that go another way.
    fn new(pages: usize, prompt: usize) -> Self {
        let recompute = Recompute {
            position: 1000,
            attended: 1,
        };
        let mut planted = Self {
            pool: PagePool::metadata_only(1 << 34),
            tree: RadixTree::new(Eviction::Lru.policy(recompute)),
            scope: Scope::default(),
            prompt: ids(prompt, 1),
        };
        planted.insert(&planted.prompt.clone());
        for page in prompt / PAGE_POSITIONS..pages {
            let depth = page % BRANCHED;
            let mut text = planted.prompt[..depth * PAGE_POSITIONS].to_vec();
            text.extend(ids(PAGE_POSITIONS, page as u64 + 2));
            planted.insert(&text);
        }
        assert_eq!(planted.tree.pages(), pages);
        planted
    }

    fn insert(&mut self, text: &[u32]) {
        let found = self.tree.find(owner(&self.scope), text, 0);
        let mut pages: Vec<PageId> = found.pages.clone();
        for page in &pages {
            self.pool.retain(*page);
        }
        while pages.len() < text.len().div_ceil(PAGE_POSITIONS) {
            let Ok(page) = self.pool.allocate() else {
                return;
            };
            let len = text.len() - pages.len() * PAGE_POSITIONS;
            self.pool.fill(page, len.min(PAGE_POSITIONS));
            pages.push(page);
        }
        let (owner, writer) = (owner(&self.scope), Writer::default());
        let text = (text, &mut pages[..]);
        let node = self
            .tree
            .insert(&mut self.pool, owner, text, writer, NodeId::ROOT);
        self.tree.unlock(&mut self.pool, node);
        for page in pages {
            self.pool.release(page);
        }
    }

    fn find(&mut self, calls: u64) {
        for _ in 0..calls {
            let found = self
                .tree
                .find(owner(&self.scope), black_box(&self.prompt), 0);
            assert_eq!(black_box(found).len(), self.prompt.len());
        }
    }

    fn evict(&mut self, calls: u64) {
        for _ in 0..calls {
            assert!(self.tree.evict_one(&mut self.pool));
        }
    }
}

fn compare(calls: u64) {
    let (prompt, held) = (ids(PROMPT, 1), ids(PROMPT, 1));
    for _ in 0..calls {
        assert_eq!(common_prefix(black_box(&held), black_box(&prompt)), PROMPT);
    }
}

fn work(name: &str, calls: u64) -> bool {
    match name {
        "find" => Planted::new(100_000, PROMPT).find(calls),
        "compare" => compare(calls),
        "evict-1k" => Planted::new(1000, PROMPT / 8).evict(calls),
        "evict-100k" => Planted::new(100_000, PROMPT / 8).evict(calls),
        _ => return false,
    }
    true
}

fn main() -> ExitCode {
    // `cargo bench` adds `--bench`; only the run under valgrind has a name and a number.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, calls] = arguments.as_slice() {
        let ran = calls.parse().is_ok_and(|calls| work(name, calls));
        return if ran {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    if let Some(why) = counted::unavailable() {
        println!("{why}");
        return ExitCode::SUCCESS;
    }
    match measured() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn measured() -> Result<bool, String> {
    let (find, compare) = (
        counted::per_call("find", FINDS)?,
        counted::per_call("compare", FINDS)?,
    );
    let few = counted::per_call("evict-1k", EVICTIONS)?;
    let many = counted::per_call("evict-100k", EVICTIONS)?;
    let rows = [
        (
            "a match of 8192 tokens among 100 000 pages",
            find,
            "a comparison of the ids",
            compare,
            FIND_MAX,
        ),
        (
            "an eviction among 100 000 pages",
            many,
            "one among 1000",
            few,
            EVICT_MAX,
        ),
    ];
    let mut held = true;
    for (what, cost, beside, of_beside, most) in rows {
        let ratio = cost / of_beside;
        let verdict = if ratio <= most { "held" } else { "NOT HELD" };
        held &= ratio <= most;
        println!(
            "{what}: {cost:.0} instructions, {beside}: {of_beside:.0}; {ratio:.2}x, at most {most}x: {verdict}"
        );
    }
    Ok(held)
}
