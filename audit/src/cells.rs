//! Every figure of a run of cells that follows from envelope, traces and stated numbers, recomputed and compared.
//!
//! Not here: single traces (`trace`, `external`) and the formulas of what work needs (`needs`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::arms::Traces;
use crate::cell::{Cell, EngineWork, flash_attention};
use crate::envelope::{Envelope, Plan};
use crate::external::{self, ExternalTrace};
use crate::figures;
use crate::hash;
use crate::identity;
use crate::latencies::{self, Instrument};
use crate::needs::{Grounds, needs};
use crate::notebook::{Layer, Notebook, quote};
use crate::possible;
use crate::record::{CellRatio, CellSample, Divergence, Identity, Record};
use crate::schema;
use crate::statistics::{interval, median, median_integer, rounded, verdict};
use crate::trace::Trace;

const OURS: &str = "fak";
const UNSHARED: &str = "fak-unshared";

/// All traces of a run, by file name without ending.
#[derive(Default)]
pub(crate) struct CellTraces {
    pub(crate) own: Traces,
    pub(crate) external: BTreeMap<String, ExternalTrace>,
}

/// The file name of a trace, without its ending.
pub(crate) fn stem(cell: &str, arm: &str, rep: u64) -> String {
    format!("{cell}.{}-{rep}", arm.replace(':', "."))
}

/// Every trace in the order its process ran, cell by cell.
fn order(envelope: &Envelope<EngineWork>) -> Vec<String> {
    let cells = envelope.workload.cells.iter();
    let of_cell = |cell: &Cell| {
        let rounds = envelope.run.rounds().into_iter();
        let names = rounds.map(|(arm, rep)| stem(&cell.name, arm, rep));
        names.collect::<Vec<_>>()
    };
    cells.flat_map(of_cell).collect()
}

/// How one repetition ended, whoever ran it.
struct Ending<'a> {
    measured: Option<(u64, u64)>,
    error: Option<&'a str>,
    last_t_ns: u64,
}

impl CellTraces {
    fn ending(&self, stem: &str) -> Option<Ending<'_>> {
        if let Some(trace) = self.own.get(stem) {
            return Some(Ending {
                measured: trace.end.as_ref().map(|_| trace.timed),
                error: trace.error.as_deref(),
                last_t_ns: trace.last_t_ns,
            });
        }
        self.external.get(stem).map(|trace| Ending {
            measured: trace.measured,
            error: trace.error.as_deref(),
            last_t_ns: trace.last_t_ns,
        })
    }
}

/// One run, as its parts see it.
struct Run<'a> {
    envelope: &'a Envelope<EngineWork>,
    traces: &'a CellTraces,
    grounds: Grounds<'a>,
    /// run.json as a document, whose words stand where any words will do.
    found: &'a Value,
    /// What the harness takes itself; without it a run says nothing of outliers.
    instrument: Option<&'a Instrument>,
}

/// Compares the record with the traces and gives the recomputed identity.
pub(crate) fn check(
    record: &Record,
    envelope: &Envelope<EngineWork>,
    envelope_sha256: &str,
    traces: &CellTraces,
    notes: &mut Notebook,
) -> Option<Identity> {
    notes.open("run.json");
    let Some(first) = traces.own.values().next() else {
        notes.broken(
            Layer::Record,
            "no arm of ours ran, so nothing can be compared",
        );
        return None;
    };
    check_alike(traces, first, &envelope.run, notes);
    notes.open("run.json");
    figures::check_order(record, &order(envelope), notes);
    if let Some(ceilings) = &record.machine.ceilings {
        ceilings.check(notes);
    }
    if record.sittings.is_empty() {
        notes.broken_at(Layer::Record, "sittings", "sittings is empty");
    }
    let Some(numbers) = record.model.numbers.as_ref().filter(|it| it.check(notes)) else {
        notes.broken(Layer::Record, "model.numbers is missing or no use");
        return None;
    };
    let found = serde_json::to_value(record).unwrap_or_default(); // null equals no figure
    let settings = &first.begin.settings;
    possible::check(record, &traces.own, notes);
    notes.open("run.json");
    let run = Run {
        envelope,
        traces,
        grounds: Grounds {
            numbers,
            ceilings: record.machine.ceilings.as_ref(),
            mode: &settings.mode,
            kv_dtype: &settings.kv_dtype,
            threads: settings.threads,
        },
        found: &found,
        instrument: record.instrument.as_ref(),
    };
    latencies::check(record, &found, notes);
    let identity = run.identity(&record.order);
    let mut expected = run.head(first, notes);
    expected["envelope_sha256"] = json!(envelope_sha256);
    expected["identity"] = json!(identity);
    let cells = envelope.workload.cells.iter().enumerate();
    let cells: Vec<Value> = cells
        .map(|(place, cell)| run.cell(place, cell, &record.order))
        .collect();
    run.check_arms(notes);
    expected["cells"] = json!(cells);
    figures::compare(figures::TRACES, "", &found, &expected, notes);
    let compared = figures::leaves(&expected);
    notes.recomputed("figures of run.json", compared);
    let rest = figures::leaves(&found).saturating_sub(compared);
    *notes.asserted.entry("figures of run.json").or_default() += rest;
    Some(identity)
}

/// All traces are of one model; ours have one setting, the one asked for, and of one cell one question.
fn check_alike(traces: &CellTraces, first: &Trace, run: &Plan, notes: &mut Notebook) {
    let mut of_cell: BTreeMap<&Option<String>, &Trace> = BTreeMap::new();
    for (name, trace) in &traces.own {
        notes.open(&format!("trace/{name}.jsonl"));
        notes.turn_to(Some(1)); // `begin`
        figures::alike(trace, first, trace, notes);
        figures::as_asked(trace, run, notes);
        let (shares, declared) = (
            trace.begin.settings.shared_attention,
            trace.begin.arm == OURS,
        );
        notes.same(
            Layer::Settings,
            "settings.shared_attention",
            &shares,
            &declared,
        );
        notes.turn_to(None);
        let reference = of_cell.entry(&trace.begin.cell).or_insert(trace);
        if trace.end.is_some() {
            figures::asks_alike(&trace.inputs_sha256, &reference.inputs_sha256, notes);
        }
    }
    for (name, trace) in &traces.external {
        notes.open(&format!("trace/{name}.jsonl"));
        notes.turn_to(Some(1)); // `begin_external`
        let (found, expected) = (&trace.model_sha256, &first.begin.model_sha256);
        notes.same(Layer::Settings, "model_sha256", found, expected);
        let mut others = traces.external.values();
        let of_name =
            others.find(|it| it.program.name == trace.program.name && it.program.sha256.is_some());
        if let Some(first) = traces.external.values().next() {
            trace.check_alike(first, of_name, notes);
        }
    }
}

impl Run<'_> {
    fn arms(&self) -> &[String] {
        &self.envelope.run.arms
    }

    fn reps(&self, arm: &str) -> u64 {
        self.envelope.run.arm_reps.get(arm).copied().unwrap_or(0)
    }

    fn endings<'s>(
        &'s self,
        cell: &'s Cell,
        arm: &'s str,
    ) -> impl Iterator<Item = (u64, Ending<'s>)> {
        (0..self.reps(arm))
            .filter_map(move |rep| Some((rep, self.traces.ending(&stem(&cell.name, arm, rep))?)))
    }

    fn completed(&self, cell: &Cell, arm: &str) -> bool {
        self.endings(cell, arm)
            .all(|(_, ending)| ending.measured.is_some())
    }

    fn samples(&self, cell: &Cell, arm: &str) -> Vec<CellSample> {
        let measured = self.endings(cell, arm).filter_map(|(rep, ending)| {
            let (tokens, timed_ns) = ending.measured?;
            Some(CellSample {
                rep,
                tokens,
                timed_ns,
                process_ns: ending.last_t_ns,
            })
        });
        measured.collect()
    }

    /// What run.json must say of the run as a whole.
    fn head(&self, first: &Trace, notes: &mut Notebook) -> Value {
        let (run, settings) = (&self.envelope.run, &first.begin.settings);
        let obeyed = run.kernels == "auto" || run.kernels == settings.kernels;
        notes.check(Layer::Settings, obeyed, || {
            let (asked, effective) = (quote(&run.kernels), quote(&settings.kernels));
            format!("requested kernels {asked}, but the traces ran {effective}")
        });
        let cells = &self.envelope.workload.cells;
        let complete = |cell: &Cell| self.arms().iter().all(|arm| self.completed(cell, arm));
        json!({
            "schema": schema::RUN,
            "envelope": self.envelope.name,
            "complete": cells.iter().all(complete),
            "model": {
                "name": self.envelope.model,
                "sha256": first.begin.model_sha256,
                "tokenizer_sha256": first.begin.tokenizer_sha256,
            },
            "requested": {
                "mode": self.envelope.mode, "kernels": run.kernels, "threads": run.threads,
            },
            "effective": {
                "mode": settings.mode, "kernels": settings.kernels,
                "threads": settings.threads, "kv_dtype": settings.kv_dtype,
            },
            "ratios": [],
            "verdict": null,
        })
    }

    /// The record has the declared arms in every cell, and none beside the cells.
    fn check_arms(&self, notes: &mut Notebook) {
        let none = figures::keys(&self.found["arms"]).is_empty();
        notes.check(Layer::Record, none, || {
            "arms is not empty: in a run of cells they stand in each cell".to_owned()
        });
        let mut arms: Vec<&String> = self.arms().iter().collect();
        arms.sort_unstable();
        for cell in self.found["cells"].as_array().into_iter().flatten() {
            let named = figures::keys(&cell["arms"]);
            let what = format!(
                "arms of cell {}",
                quote(cell["name"].as_str().unwrap_or_default())
            );
            notes.same(Layer::Record, &what, &named, &arms);
        }
    }

    fn cell(&self, place: usize, cell: &Cell, order: &[String]) -> Value {
        let stated = &self.found["cells"][place];
        let arms = self.arms().iter();
        let arms: Map<String, Value> = arms
            .map(|arm| (arm.clone(), self.arm(cell, arm, &stated["arms"][arm])))
            .collect();
        let mut ratios = json!(self.ratios(cell, order, &stated["ratios"]));
        let stating = self.instrument.and(ratios.as_array_mut());
        for ratio in stating
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            ratio.entry("outliers").or_insert(Value::Null); // of a withheld ratio there are none
        }
        json!({
            "name": cell.name,
            "ratios": ratios,
            "arms": arms,
        })
    }

    fn arm(&self, cell: &Cell, arm: &str, stated: &Value) -> Value {
        let is_external = flash_attention(arm).is_some();
        // A program that reads one prompt at a time did the work of one agent.
        let done = Cell {
            agents: if is_external && !cell.is_decode() {
                1
            } else {
                cell.agents
            },
            ..cell.clone()
        };
        let mut needs = needs(&done, &self.grounds);
        if needs.limit_ns.is_none() {
            needs.withheld = Some(reason(&stated["needs"]["withheld"]));
        }
        let samples = self.samples(cell, arm);
        let first = self.traces.own.get(&stem(&cell.name, arm, 0));
        let complete = self.completed(cell, arm);
        let rates: Vec<f64> = samples.iter().map(rate).collect();
        let times: Vec<u64> = samples.iter().map(|sample| sample.timed_ns).collect();
        let share = needs.limit_ns.zip(median_integer(&times));
        let share = share.map(|(limit, timed)| rounded(limit as f64 / timed as f64));
        let answers = first.filter(|_| complete).map(answers).unzip();
        let mut figures = json!({
            "provenance": if is_external { "OBSERVED" } else { "WITNESSED" },
            "reps": self.reps(arm),
            "completed": samples.len(),
            "note": external::note(cell).filter(|_| is_external),
            "error": self.endings(cell, arm).find_map(|(_, ending)| ending.error),
            "needs": needs,
            "tokens_per_s": median(&rates).filter(|_| complete).map(rounded),
            "share_of_limit": share.filter(|_| complete),
            "output_sha256": answers.0,
            "logits_sha256": answers.1,
            "samples": samples,
        });
        if let Some(instrument) = self.instrument {
            let outliers = complete.then(|| latencies::far_out(&times, |ns| *ns as f64));
            figures["outliers"] = json!(outliers);
            figures[latencies::MARK] = instrument.mark(median_integer(&times).filter(|_| complete));
        }
        figures
    }

    /// Our engine over its better external opponent, then over itself without shared-prefix attention.
    fn ratios(&self, cell: &Cell, order: &[String], stated: &Value) -> Vec<CellRatio> {
        let external = self.best_external(cell);
        let unshared = self
            .arms()
            .iter()
            .map(String::as_str)
            .find(|arm| *arm == UNSHARED);
        let diverges = self.divergence(cell, order).is_some();
        let denominators = external.into_iter().chain(unshared);
        let ran = denominators.filter(|arm| {
            self.completed(cell, OURS) && self.completed(cell, arm) && self.reps(OURS) > 0
        });
        ran.enumerate()
            .map(|(place, denominator)| {
                let mut ratio = self.ratio(cell, denominator, diverges);
                ratio.withheld = diverges.then(|| reason(&stated[place]["withheld"]));
                ratio
            })
            .collect()
    }

    /// The external arm with the greatest median rate, the first of equals, if every external arm completed.
    fn best_external(&self, cell: &Cell) -> Option<&str> {
        let mut best: Option<(&str, f64)> = None;
        for arm in self
            .arms()
            .iter()
            .filter(|arm| flash_attention(arm).is_some())
        {
            if !self.completed(cell, arm) {
                return None;
            }
            let rates: Vec<f64> = self.samples(cell, arm).iter().map(rate).collect();
            let rate = rounded(median(&rates)?);
            if best.is_none_or(|(_, known)| rate > known) {
                best = Some((arm, rate));
            }
        }
        best.map(|(arm, _)| arm)
    }

    fn ratio(&self, cell: &Cell, denominator: &str, diverges: bool) -> CellRatio {
        let (ours, theirs) = (self.samples(cell, OURS), self.samples(cell, denominator));
        let pairs = ours.iter().zip(&theirs);
        let speeds: Vec<f64> = pairs
            .map(|(ours, theirs)| rate(ours) / rate(theirs))
            .collect();
        let mut ratio = CellRatio {
            arm: OURS.to_owned(),
            denominator: denominator.to_owned(),
            pairs: speeds.len() as u64,
            speed: None,
            low: None,
            high: None,
            verdict: None,
            withheld: None,
            outliers: None,
        };
        if !diverges {
            // Judged as written, so that the printed interval and its verdict agree.
            let limits = interval(&speeds).map(|(low, high)| (rounded(low), rounded(high)));
            ratio.speed = median(&speeds).map(rounded);
            (ratio.low, ratio.high) = limits.unzip();
            let stated = self.instrument.is_some();
            ratio.outliers = stated.then(|| latencies::far_out(&speeds, |speed| *speed));
            ratio.verdict = Some(verdict(speeds.len(), limits).to_owned());
        }
        ratio
    }

    /// The first of our completed repetitions in this cell that differs from the first that ran.
    fn divergence(&self, cell: &Cell, order: &[String]) -> Option<Divergence> {
        let mut runs = order.iter().filter_map(|name| {
            let trace = self.traces.own.get(name)?;
            let of_cell = trace.begin.cell.as_deref() == Some(cell.name.as_str());
            (of_cell && self.completed(cell, &trace.begin.arm)).then_some(trace)
        });
        let mut references = BTreeMap::new();
        runs.find_map(|trace| identity::divergence(trace, &mut references, u64::MAX))
    }

    fn identity(&self, order: &[String]) -> Identity {
        let cells = &self.envelope.workload.cells;
        let first_divergence = cells.iter().find_map(|cell| self.divergence(cell, order));
        let completed = |arm: &&String| {
            flash_attention(arm).is_none() && cells.iter().all(|cell| self.completed(cell, arm))
        };
        Identity {
            equal: first_divergence.is_none(),
            arms: self.arms().iter().filter(completed).cloned().collect(),
            requests: cells.iter().map(Cell::requests).sum(),
            first_divergence,
        }
    }
}

/// Tokens per second.
fn rate(sample: &CellSample) -> f64 {
    sample.tokens as f64 * 1e9 / sample.timed_ns as f64
}

/// The stated words where a figure is withheld: any reason will do, but not none.
fn reason(stated: &Value) -> String {
    let words = stated.as_str().filter(|words| !words.is_empty());
    words.unwrap_or("why").to_owned()
}

/// Hashes over all output ids and all logit hashes, by (agent, turn).
fn answers(trace: &Trace) -> (String, String) {
    let outputs = || trace.outputs.values();
    let logits: String = outputs()
        .map(|output| output.logits_sha256.as_str())
        .collect();
    let ids = hash::of_ids(outputs().flat_map(|output| &output.ids));
    (ids, hash::of_bytes(logits.as_bytes()))
}
