//! The counting of a counted envelope: every request against every cache, one after the other.
//!
//! Not here: closed forms, which are the auditor's way to the same numbers and a test of this one.

use std::collections::BTreeMap;

use super::{
    ArmCounts, CacheRecord, CountedRow, ResolvedCounts, SPANS_MAX, SessionAsked, StreamAsked,
    TaskShape, routing,
};
use crate::Error;
use crate::accounting::streams::{self, Radix};
use crate::accounting::{Account, CacheModel, Scope, online, replay};
use crate::oracle::Shape;

/// Who finds what, by the names that arms have everywhere: a session is served by one worker, and a data set by as many as
/// are asked, each with an instance of its own.
const ARMS: [(&str, Scope); 4] = [
    ("naive", Scope::None),
    ("agent-kv", Scope::Session),
    ("instance-shared", Scope::Worker),
    ("fused", Scope::Fleet),
];

/// The names of those whose counts a row has, from who finds nothing to who finds everything.
pub fn arms() -> [&'static str; 4] {
    ARMS.map(|(name, _)| name)
}

/// Counts every row that the envelope asks for.
pub fn count(envelope: &ResolvedCounts) -> Result<Vec<CountedRow>, Error> {
    let work = &envelope.workload;
    if let Some(dataset) = &work.asked.dataset {
        let of_workers = |&workers: &u64| tasks(&dataset.file, &work.tasks, workers);
        return work.asked.workers.iter().map(of_workers).collect();
    }
    if let Some(routing) = &work.asked.routing {
        return Ok(routing::rows(routing));
    }
    let sessions = work.asked.sessions.iter().map(session);
    sessions
        .chain(work.asked.streams.iter().map(stream))
        .collect()
}

/// All tasks of a set, with so many workers on each.
fn tasks(file: &str, tasks: &[TaskShape], workers: u64) -> Result<CountedRow, Error> {
    let spans = |it: &TaskShape| workers.saturating_mul(it.turns).saturating_mul(it.turns);
    let spans = tasks.iter().map(spans).fold(0, u64::saturating_add);
    if spans > SPANS_MAX {
        return Err(Error::Field {
            place: file.to_owned(),
            field: "workload.workers".to_owned(),
            value: workers.to_string(),
            wanted: format!("fewer: workers x turns x turns up to {SPANS_MAX} over unlike tasks"),
        });
    }
    let of_arm = |(arm, scope): (&str, Scope)| {
        let mut sum = Sum::default();
        for task in tasks {
            let shape = Shape {
                agents: workers,
                turns: task.turns,
                prefix: task.prefix,
                decode: task.decode,
                result: task.result,
                workers,
                ..Shape::default()
            };
            sum.add(&counted(&shape, scope), task.count);
        }
        Ok((arm.to_owned(), sum.counts()?))
    };
    Ok(CountedRow {
        name: file.to_owned(),
        workers,
        cache: None,
        routed: None,
        arms: ARMS.into_iter().map(of_arm).collect::<Result<_, Error>>()?,
    })
}

fn session(asked: &SessionAsked) -> Result<CountedRow, Error> {
    let shape = Shape {
        agents: asked.agents,
        turns: asked.turns,
        prefix: asked.prefix,
        decode: asked.decode,
        result: asked.result,
        workers: 1,
        ..Shape::default()
    };
    let of_arm = |(arm, scope): (&str, Scope)| {
        let counts = Sum::of(&counted(&shape, scope)).counts()?;
        Ok((arm.to_owned(), counts))
    };
    Ok(CountedRow {
        name: asked.name.clone(),
        workers: 1,
        cache: None,
        routed: None,
        arms: ARMS.into_iter().map(of_arm).collect::<Result<_, Error>>()?,
    })
}

fn counted(shape: &Shape, scope: Scope) -> Account {
    replay(&CacheModel::unbounded(scope), streams::session(shape, 0))
}

/// A stream under its cache, which is one for everybody; beside it nobody's, and each conversation's own where none is
/// ever full.
fn stream(asked: &StreamAsked) -> Result<CountedRow, Error> {
    let found = Radix::ALL.into_iter().find(|it| it.name() == asked.name);
    let requests = found.map(Radix::requests).unwrap_or_default();
    let model = CacheModel {
        scope: Scope::Fleet,
        capacity_tokens: asked.capacity_tokens,
    };
    // Nobody is overtaken where requests are served as they come.
    let (fused, overtaken_most) = match asked.overtaken_max {
        None => (replay(&model, requests.clone()), 0),
        Some(most) => {
            let ordered = online::replay(&model, requests.clone(), most as usize);
            (ordered.account, ordered.overtaken_most as u64)
        }
    };
    let beside = |scope| replay(&CacheModel::unbounded(scope), requests.clone());
    let mut accounts = vec![("naive", beside(Scope::None)), ("fused", fused)];
    if asked.capacity_tokens.is_none() {
        accounts.push(("agent-kv", beside(Scope::Session)));
    }
    let arms = accounts
        .into_iter()
        .map(|(arm, account)| Ok((arm.to_owned(), Sum::of(&account).counts()?)));
    let order = asked.overtaken_max.map_or("first-come", |_| "online");
    Ok(CountedRow {
        name: asked.name.clone(),
        workers: 1,
        cache: Some(CacheRecord {
            capacity_tokens: asked.capacity_tokens,
            order: order.to_owned(),
            overtaken_max: asked.overtaken_max,
            overtaken_most,
            evictions: fused.evictions,
            hit_rate_millionths: fused.reused_tokens * 1_000_000 / fused.prompt_tokens.max(1),
        }),
        routed: None,
        arms: arms.collect::<Result<BTreeMap<_, _>, Error>>()?,
    })
}

/// Accounts of works that follow each other, wide enough for any number of them.
#[derive(Default)]
struct Sum {
    requests: u128,
    logical: u128,
    computed: u128,
    hit: u128,
    decoded: u128,
    attended: u128,
    held_peak: u64,
}

impl Sum {
    fn of(account: &Account) -> Self {
        let mut sum = Self::default();
        sum.add(account, 1);
        sum
    }

    /// Adds so many works alike; of what is held at once the most counts.
    fn add(&mut self, account: &Account, works: u64) {
        let times = |value: u64| u128::from(value) * u128::from(works);
        self.requests += times(account.requests);
        self.logical += times(account.prompt_tokens);
        self.computed += times(account.computed_tokens);
        self.hit += times(account.reused_tokens);
        self.decoded += times(account.decode_tokens);
        let attended = account.attended_positions.saturating_mul(u128::from(works));
        self.attended = self.attended.saturating_add(attended);
        self.held_peak = self.held_peak.max(account.held_tokens_peak);
    }

    fn counts(&self) -> Result<ArmCounts, Error> {
        let narrow = |wide: u128| u64::try_from(wide).map_err(|_| Error::TooManyTokens);
        Ok(ArmCounts {
            requests: narrow(self.requests)?,
            prefill_tokens_logical: narrow(self.logical)?,
            prefill_tokens_computed: narrow(self.computed)?,
            prefix_tokens_hit: narrow(self.hit)?,
            decode_tokens: narrow(self.decoded)?,
            attended_positions: narrow(self.attended)?,
            held_tokens_peak: self.held_peak,
        })
    }
}
