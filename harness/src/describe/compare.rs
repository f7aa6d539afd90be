//! `describe compare`: every kind of work under one account, side by side. Provenance MODELED: nothing is run.
//!
//! Not here: any kind of work by itself (`tasks`, `fanout`).

use std::io::Write;

use serde_json::{Value, json};
use workloads::accounting::streams::{Radix, session};
use workloads::accounting::{Account, CacheModel, Request, Scope, online, replay};
use workloads::envelope::Envelope;

use super::document::Document;
use super::tasks::{self, Kind};
use crate::cli::CompareWorkArguments;
use crate::error::Error;
use crate::table::{Table, grouped};
use crate::world::World;

/// The session of the headline.
const HEADLINE: &str = "session-50x5";
/// Workers on each task of a set.
const WORKERS: u64 = 4;
/// How often a request may be overtaken where an order knows the cache.
const OVERTAKEN_MAX: usize = 8;

/// One kind of work: by nobody, each conversation, everybody kept.
struct Work {
    name: String,
    accounts: [Account; 3],
}

/// A stream in a cache that holds one and a half of its longest request, by the order requests are served in.
struct Tight {
    name: &'static str,
    capacity_tokens: u64,
    first_come: Account,
    bounded: Account,
    free: Account,
    best: Account,
}

/// Counts and shows.
pub(super) fn run(
    arguments: &CompareWorkArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let headline = Envelope::named(HEADLINE);
    let headline = headline.map_err(|error| Error::Usage(error.to_string()))?;
    let shape = headline.workload.shape();
    let mut works = vec![of(HEADLINE, || session(&shape, 0).collect())];
    for stream in Radix::ALL {
        works.push(of(stream.name(), || stream.requests()));
    }
    let sets: [(&Kind, _); 2] = [
        (&tasks::SWEBENCH, &arguments.swebench),
        (&tasks::WEBBENCH, &arguments.webbench),
    ];
    let mut unused: Vec<&String> = arguments.turns.iter().map(|(label, _)| label).collect();
    for (kind, files) in sets {
        for file in files {
            let turns = kind.turns(&arguments.turns).for_several_sets();
            let (name, set) = kind.read(file, &turns, world)?;
            let labels = set.labels();
            unused.retain(|label| !labels.contains_key(label.as_str()));
            let costs = set.costs(WORKERS, false);
            let costs = costs.map_err(|error| Error::Usage(error.to_string()))?;
            works.push(Work {
                name: format!("{name}, {WORKERS} workers"),
                accounts: [costs.naive, costs.agent_kv, costs.shared],
            });
        }
    }
    if let Some(label) = unused.first() {
        let problem = format!("--turns gives turns for {label:?}, and no task has that label");
        return Err(Error::Usage(problem));
    }
    let tight: Vec<Tight> = Radix::ALL.into_iter().map(in_little_room).collect();
    document(&works, &tight).show(&as_json(&works, &tight), &arguments.shown, world, out)
}

fn of(name: &str, requests: impl Fn() -> Vec<Request>) -> Work {
    let under = |scope| replay(&CacheModel::unbounded(scope), requests());
    Work {
        name: name.to_owned(),
        accounts: [Scope::None, Scope::Session, Scope::Fleet].map(under),
    }
}

fn in_little_room(stream: Radix) -> Tight {
    let requests = stream.requests();
    let longest = requests.iter().map(Request::prompt_tokens).max();
    let capacity_tokens = longest.unwrap_or(0) * 3 / 2;
    let model = CacheModel {
        scope: Scope::Fleet,
        capacity_tokens: Some(capacity_tokens),
    };
    Tight {
        name: stream.name(),
        capacity_tokens,
        first_come: replay(&model, requests.clone()),
        bounded: online::replay(&model, requests.clone(), OVERTAKEN_MAX).account,
        free: online::replay(&model, requests.clone(), usize::MAX).account,
        best: replay(&CacheModel::unbounded(Scope::Fleet), requests),
    }
}

fn as_json(works: &[Work], tight: &[Tight]) -> Value {
    let works = works.iter().map(|it| {
        let [naive, kept, shared] = it.accounts;
        json!({ "name": it.name, "naive": naive, "kept": kept, "shared": shared })
    });
    let tight = tight.iter().map(|it| {
        json!({
            "name": it.name, "capacity_tokens": it.capacity_tokens, "first_come": it.first_come,
            "overtaken_max": OVERTAKEN_MAX, "bounded": it.bounded, "unbounded": it.free, "best": it.best,
        })
    });
    json!({
        "provenance": "MODELED",
        "works": works.collect::<Vec<_>>(),
        "little_room": tight.collect::<Vec<_>>(),
    })
}

fn percent(rate: f64) -> String {
    format!("{:.1} %", rate * 100.0)
}

/// What the columns of the first table mean.
const TERMS: [(&str, &str); 6] = [
    (
        "naive",
        "every prompt is computed whole, which nobody ships.",
    ),
    ("each keeps", "a conversation finds what it said itself."),
    ("shared", "everything said is found by everybody."),
    (
        "keeping saves",
        "naive over each keeps. It has nothing to do with sharing.",
    ),
    (
        "sharing saves",
        "each keeps over shared; 1.00x where conversations have nothing in common.",
    ),
    (
        "found",
        "the share of prompt tokens that is found, when shared.",
    ),
];

fn document(works: &[Work], tight: &[Tight]) -> Document {
    let mut it = Document::new("Kinds of work under one account");
    it.words(
        "What prompts cost by who finds what was computed before, counted request by request by the same rules for all kinds. \
         Nothing was run (MODELED). Web agents' steps are charged as prompt, as in the reports these sets come from.",
    );
    it.heading("Prompt tokens computed, with room for everything");
    let mut table = Table::new(&[
        "work",
        "requests",
        "naive",
        "each keeps",
        "shared",
        "keeping saves",
        "sharing saves",
        "found",
    ]);
    for work in works {
        let [naive, kept, shared] = work.accounts.map(|account| account.computed_tokens);
        let over = |a: u64, b: u64| format!("{:.2}x", a as f64 / b.max(1) as f64);
        table.row([
            work.name.clone(),
            grouped(work.accounts[2].requests),
            grouped(naive),
            grouped(kept),
            grouped(shared),
            over(naive, kept),
            over(kept, shared),
            percent(work.accounts[2].hit_rate()),
        ]);
    }
    it.table(table);
    it.terms(TERMS.map(|(term, meaning)| (term, meaning.to_owned())));
    it.heading("Share of prompt tokens found, with room for one and a half of the longest request");
    let mut table = Table::new(&[
        "work",
        "tokens of room",
        "first come",
        "overtaken 8 times at most",
        "without a bound",
        "room for everything",
    ]);
    for row in tight {
        table.row([
            row.name.to_owned(),
            grouped(row.capacity_tokens),
            percent(row.first_come.hit_rate()),
            percent(row.bounded.hit_rate()),
            percent(row.free.hit_rate()),
            percent(row.best.hit_rate()),
        ]);
    }
    it.table(table);
    it.words(
        "Where requests may be overtaken, the one of those that wait that finds most in the cache is asked next. A turn waits \
         for the answer of the one before it, so this is an order that could be had, unlike a sort of all requests beforehand. \
         Whoever was overtaken as often as is allowed comes next. No order finds more than there is with room for everything.",
    );
    it
}
