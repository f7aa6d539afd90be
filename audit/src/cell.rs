//! Cells of engine work: their structs, and what a cell demands of a trace of ours.
//!
//! Not here: traces of other programs (`external`), figures over all cells (`cells`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::envelope::{
    Evidence, Plan, Work, check_positive, lru, margin_millinats, request_limit_s,
};
use crate::line::{Base, Finish, Request, Step};
use crate::notebook::{Layer, Notebook, quote};
use crate::seeded::{Seeded, check_seeded};
use crate::trace::Counters;

/// Cells of one envelope, and positions or agents of one cell, an auditor is ready to follow.
const MAX_CELLS: usize = 1_000;
const MAX_SIZE: u64 = 1 << 20;
/// Of the time around the timed steps, what they need not account for: a busy machine sets a process aside.
const SET_ASIDE_NS: u64 = 100_000_000;

/// The `workload` of kind `engine`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EngineWork {
    /// What was peeked at to know that this is one.
    #[serde(rename = "kind")]
    _kind: String,
    pub(crate) cells: Vec<Cell>,
    limit_s: u64,
    pub(crate) seed: u64,
}

/// One piece of work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) prompt: u64,
    pub(crate) depth: u64,
    pub(crate) decode: u64,
    pub(crate) agents: u64,
    pub(crate) shared: u64,
}

/// An arm of engine work: whether it is another program, and whether that uses its fused attention.
pub(crate) fn flash_attention(arm: &str) -> Option<bool> {
    match arm {
        "llama-bench:fa0" => Some(false),
        "llama-bench:fa1" => Some(true),
        _ => None,
    }
}

impl Work for EngineWork {
    fn knows_arm(arm: &str) -> bool {
        matches!(arm, "fak" | "fak-unshared") || flash_attention(arm).is_some()
    }

    fn check(&self, run: &Plan, evidence: &Evidence, notes: &mut Notebook) {
        let plain = run.eviction == lru() && run.kv_dtype.is_none() && !evidence.kv;
        notes.check(Layer::Format, plain, || {
            "run.eviction, run.kv_dtype and evidence.kv are for sessions".to_owned()
        });
        notes.check(Layer::Format, run.admission.is_none(), || {
            "run.admission is for sessions".to_owned()
        });
        let limits = (run.margin_millinats, run.request_limit_s);
        let plain = limits == (margin_millinats(), request_limit_s());
        notes.check(Layer::Format, plain, || {
            "run.margin_millinats and run.request_limit_s are for sessions".to_owned()
        });
        notes.check(Layer::Format, run.arm_turns.is_empty(), || {
            "run.arm_turns: cells have no turns to play fewer of".to_owned()
        });
        check_positive("workload.limit_s", self.limit_s, notes);
        let count = self.cells.len();
        notes.check(Layer::Format, (1..=MAX_CELLS).contains(&count), || {
            format!("workload.cells has {count} entries, expected 1 to {MAX_CELLS}")
        });
        let mut names = BTreeSet::new();
        for cell in &self.cells {
            let plain = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
            };
            let name = &cell.name;
            let fit = !name.is_empty() && name.bytes().all(plain) && names.insert(name);
            notes.check(Layer::Format, fit, || {
                format!(
                    "workload.cells: the name {} is used twice or is none",
                    quote(name)
                )
            });
            notes.check(Layer::Format, cell.is_possible(), || {
                format!("workload.cells: {} cannot be asked", quote(cell))
            });
        }
    }
}

impl Cell {
    fn is_possible(&self) -> bool {
        let sizes = [self.prompt, self.depth, self.decode, self.agents];
        sizes.iter().all(|size| *size <= MAX_SIZE)
            && self.agents > 0
            && (self.prompt == 0) != (self.decode == 0)
            && self.shared <= self.depth
    }

    pub(crate) fn is_decode(&self) -> bool {
        self.decode > 0
    }

    /// Turns of each agent: a prompt on cached positions has one before it that caches them.
    fn turns(&self) -> u64 {
        1 + u64::from(self.prompt > 0 && self.depth > 0)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.agents * self.turns()
    }

    /// Positions or tokens the timed steps run.
    pub(crate) fn tokens(&self) -> u64 {
        self.agents * (self.prompt + self.decode)
    }

    /// Length of what a request appends.
    fn append(&self, turn: u64) -> u64 {
        match (turn, self.is_decode()) {
            (0, true) => self.depth - self.shared + 1,
            (0, false) if self.turns() == 1 => self.prompt,
            (0, false) => self.depth - self.shared,
            _ => self.prompt.saturating_sub(1),
        }
    }
}

/// Checks one trace against its cell.
pub(crate) struct CellDemands<'a> {
    cell: &'a Cell,
    seeded: Seeded,
    texts: u64,
    finished: u64,
    last_turn: bool,
    /// By turn: the first id of each agent's own, and whose it was.
    first_ids: BTreeMap<u64, BTreeMap<u32, u64>>,
    rows: u64,
    timed_ns: u64,
    /// From the line before the first timed step to the last one's own, as `t_ns`.
    window: Option<(u64, u64)>,
}

impl<'a> CellDemands<'a> {
    pub(crate) fn new(cell: &'a Cell, seed: u64) -> Self {
        Self {
            cell,
            seeded: Seeded::new(seed),
            texts: 0,
            finished: 0,
            last_turn: false,
            first_ids: BTreeMap::new(),
            rows: 0,
            timed_ns: 0,
            window: None,
        }
    }

    pub(crate) fn text(&mut self, ids: &[u32], notes: &mut Notebook) {
        self.texts += 1;
        let stated = (self.texts, ids.len() as u64);
        let what = "texts stated, and ids of the shared text";
        notes.same(Layer::Prompt, what, &stated, &(1, self.cell.shared));
        let given = self.seeded.is_prefix(ids, 0);
        check_seeded(given, ids.len(), notes);
    }

    pub(crate) fn request(
        &mut self,
        request: &Request,
        base_len: u64,
        base_of: Option<(u64, u64)>,
        notes: &mut Notebook,
    ) {
        let (cell, Request { agent, turn, .. }) = (self.cell, request);
        notes.check(Layer::Format, request.due_ns.is_none(), || {
            "due_ns: requests of cells do not come by the clock".to_owned()
        });
        let declared = *agent < cell.agents && *turn < cell.turns();
        notes.check(Layer::Prompt, declared, || {
            format!("agent {agent}, turn {turn} lies outside the declared cell")
        });
        let continues = match turn.checked_sub(1) {
            Some(before) => base_of == Some((*agent, before)),
            None if cell.shared > 0 => matches!(request.base, Some(Base::Text(_))),
            None => request.base.is_none(),
        };
        notes.check(Layer::Prompt, continues, || {
            "base is neither the shared text (first turn) nor the same agent's turn before"
                .to_owned()
        });
        let (append, decode_max) = (cell.append(*turn), cell.decode + 1);
        for (what, stated, declared) in [
            ("keep", request.keep, base_len),
            ("length of append", request.append.len() as u64, append),
            ("decode_max", request.decode_max, decode_max),
            ("worker", request.worker, 0),
        ] {
            notes.same(Layer::Prompt, what, &stated, &declared);
        }
        notes.same(Layer::Prompt, "ignore_eos", &request.ignore_eos, &true);
        if let Some(first) = request.append.first() {
            let of_turn = self.first_ids.entry(*turn).or_default();
            let other = of_turn.insert(*first, *agent);
            notes.check(Layer::Prompt, other.is_none(), || {
                format!("append begins with id {first} as another agent's does")
            });
        }
        let given = self.seeded.is_own(*agent, *turn, &request.append);
        check_seeded(given, request.append.len(), notes);
        if turn + 1 == cell.turns() {
            let ready = *turn == 0 || self.last_turn || self.finished == cell.agents;
            notes.check(Layer::Prompt, ready, || {
                "the timed turn begins before every agent's positions are cached".to_owned()
            });
            self.last_turn = true;
        }
    }

    /// Counts a step if it is one of those that are timed; `window` is the time it can have taken.
    pub(crate) fn step(&mut self, step: &Step, window: (u64, u64), notes: &mut Notebook) {
        let decode = self.cell.is_decode();
        if !self.last_turn || (step.phase == "decode") != decode {
            return;
        }
        self.rows = self.rows.saturating_add(step.rows);
        self.timed_ns = self.timed_ns.saturating_add(step.wall_ns);
        self.window.get_or_insert(window).1 = window.1;
        notes.check(
            Layer::Count,
            !decode || step.rows == self.cell.agents,
            || {
                format!(
                    "a timed step decodes {} of {} agents",
                    step.rows, self.cell.agents
                )
            },
        );
    }

    pub(crate) fn finish(&mut self, finish: &Finish, notes: &mut Notebook) {
        self.finished += 1;
        let (given, declared) = (finish.ids.len() as u64, self.cell.decode + 1);
        notes.same(Layer::Prompt, "length of ids", &given, &declared);
    }

    pub(crate) fn end(&self, counted: &Counters, notes: &mut Notebook) {
        let cell = self.cell;
        for (what, counted, declared) in [
            ("texts", self.texts, u64::from(cell.shared > 0)),
            ("requests", counted.requests, cell.requests()),
            ("rows of the timed steps", self.rows, cell.tokens()),
        ] {
            notes.same(Layer::Count, what, &counted, &declared);
            notes.recomputed("closed forms", 1);
        }
        notes.check(Layer::Count, self.timed_ns > 0, || {
            "the timed steps took no time".to_owned()
        });
        let (start, end) = self.window.unwrap_or_default();
        let around_ns = end.saturating_sub(start);
        // Three quarters, in whole numbers that cannot overflow.
        let least_ns = around_ns.saturating_sub(SET_ASIDE_NS) / 4 * 3;
        notes.check(Layer::Clock, self.timed_ns >= least_ns, || {
            format!(
                "the timed steps say {} ns of the {around_ns} they stand in",
                self.timed_ns
            )
        });
    }

    pub(crate) fn timed(&self) -> (u64, u64) {
        (self.rows, self.timed_ns)
    }
}
