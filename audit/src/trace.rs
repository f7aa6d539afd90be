//! One trace, line by line: every request through its legal stages, its prompt rebuilt, its counts recounted.
//!
//! Each id a trace states is kept, its text never. Not here: the chain (`chain`), a request's stages (`request`), the declared
//! workload's shape (`session`), or comparison between traces (`identity`, `figures`).

mod counters;
mod kv;
mod overtaken;
mod prompts;
mod quarantine;
mod request;
mod reuse;
mod transcripts;

use std::collections::BTreeMap;
use std::path::Path;

use crate::chain;
use crate::demands::Demands;
use crate::hash;
use crate::latencies::Times;
use crate::line::{Begin, Body, End, Line, Step};
use crate::notebook::{Layer, Notebook, Stop, quote};
use crate::oracle::{Cache, MOCK};
use crate::schema;

pub(crate) use counters::Counters;
pub(crate) use prompts::{Prompted, Prompts};
use quarantine::Barred;
pub(crate) use quarantine::Cut;
use request::Asking;
pub(crate) use reuse::Reuse;

/// Which trace is being read, and what it must agree with.
pub(crate) struct Asked<'a> {
    pub(crate) envelope: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) envelope_sha256: &'a str,
    pub(crate) cell: Option<&'a str>,
    pub(crate) arm: &'a str,
    pub(crate) rep: u64,
    /// Whether it ends with what the cache holds.
    pub(crate) kv: bool,
}

impl Asked<'_> {
    /// Compares what every first line states, whatever kind of trace it begins: its schema, envelope, the hash of that, arm
    /// and repetition.
    pub(crate) fn check_head(
        &self,
        schema: &str,
        [envelope, envelope_sha256, arm]: [&str; 3],
        rep: u64,
        notes: &mut Notebook,
    ) {
        schema::check_trace(schema, notes);
        for (what, found, expected) in [
            ("envelope", envelope, self.envelope),
            ("envelope_sha256", envelope_sha256, self.envelope_sha256),
            ("arm", arm, self.arm),
        ] {
            notes.same(Layer::Format, what, found, expected);
        }
        notes.same(Layer::Format, "rep", &rep, &self.rep);
    }
}

/// What comparison between traces needs of one.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) begin: Begin,
    /// `None` when the trace ended in `error`.
    pub(crate) end: Option<End>,
    /// The message of that `error` line.
    pub(crate) error: Option<String>,
    /// By (agent, turn).
    pub(crate) outputs: BTreeMap<(u64, u64), Output>,
    /// By turn: hash of all ids the client supplied, texts first and then appended ids by agent.
    pub(crate) inputs_sha256: BTreeMap<u64, String>,
    /// By turn: positions of client-supplied text that were computed.
    pub(crate) computed: BTreeMap<u64, u64>,
    /// Rows and nanoseconds of the steps a cell times.
    pub(crate) timed: (u64, u64),
    /// How many lines it has, and when the last was written.
    pub(crate) lines: u64,
    pub(crate) last_t_ns: u64,
    /// Positions whose keys and values the cache held at its fullest, at least.
    pub(crate) held_positions: u64,
    /// Pages of the tree it leaves, where it says so.
    pub(crate) kv_nodes: Option<u64>,
}

/// What one request answered, and when.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) prompt_sha256: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) logits_sha256: String,
    pub(crate) times: Times,
}

impl Output {
    /// Whether another request was answered the same, whenever that was.
    pub(crate) fn answers_like(&self, other: &Self) -> bool {
        self.ids == other.ids && self.logits_sha256 == other.logits_sha256
    }
}

struct Reader<'a> {
    asked: &'a Asked<'a>,
    cache: Cache,
    demands: Demands<'a>,
    lines: u64,
    last_t_ns: u64,
    /// When the last `request` or `step` line was written: the next step began no earlier.
    step_floor_t_ns: u64,
    begin: Option<Begin>,
    end: Option<End>,
    error: Option<String>,
    /// What clients said so far.
    prompts: Prompts,
    /// Requests that have not finished.
    requests: BTreeMap<String, Asking>,
    reuse: Reuse,
    /// Texts that were taken out of the cache.
    barred: Vec<Barred>,
    /// Pages of the tree at the end, once that was stated.
    kv_nodes: Option<u64>,
    /// By turn: positions of client-supplied text that were computed.
    computed: BTreeMap<u64, u64>,
    /// Most positions the cache held at once, at least.
    held_positions: u64,
    open_peak: u64,
    counted: Counters,
}

/// Reads `name` in `dir`; `None` when it could not be followed to its end.
pub(crate) fn read(
    dir: &Path,
    name: &str,
    asked: &Asked<'_>,
    demands: Demands<'_>,
    notes: &mut Notebook,
) -> Option<Trace> {
    notes.open(name);
    let cache = Cache::of_arm(asked.arm)?.0;
    let mut reader = Reader {
        asked,
        cache,
        demands,
        lines: 0,
        last_t_ns: 0,
        step_floor_t_ns: 0,
        begin: None,
        end: None,
        error: None,
        prompts: Prompts::default(),
        requests: BTreeMap::new(),
        reuse: Reuse::new(cache),
        barred: Vec::new(),
        kv_nodes: None,
        computed: BTreeMap::new(),
        held_positions: 0,
        open_peak: 0,
        counted: Counters::default(),
    };
    let whole = chain::read(&dir.join(name), notes, |line, notes| {
        reader.take(line, notes).is_ok()
    });
    if whole && !reader.ended() {
        notes.broken(
            Layer::Chain,
            "is truncated: the last line is neither `end` nor `error`",
        );
    }
    (whole && reader.ended())
        .then(|| reader.into_trace())
        .flatten()
}

fn check_digests(begin: &Begin, notes: &mut Notebook) {
    for (name, digest) in [
        ("model_sha256", Some(&begin.model_sha256)),
        ("tokenizer_sha256", begin.tokenizer_sha256.as_ref()),
    ] {
        let Some(digest) = digest else { continue };
        notes.check(Layer::Format, hash::is_digest(digest), || {
            format!("{name} is {}, which is no SHA-256", quote(digest))
        });
    }
}

impl Reader<'_> {
    /// Takes one line.
    fn take(&mut self, line: Line, notes: &mut Notebook) -> Result<(), Stop> {
        notes.insist(!self.ended(), || {
            "nothing may follow `end` or `error`".to_owned()
        })?;
        let first = line.seq == 0 && self.begin.is_none();
        notes.insist(matches!(line.body, Body::Begin(_)) == first, || {
            "`begin` is the first line and only the first".to_owned()
        })?;
        let last = matches!(line.body, Body::Error(_) | Body::End(_));
        notes.insist(self.kv_nodes.is_none() || last, || {
            "only `end` or `error` may follow `kv`".to_owned()
        })?;
        let t_ns = line.t_ns;
        let before_t_ns = std::mem::replace(&mut self.last_t_ns, t_ns);
        self.lines += 1;
        *notes.asserted.entry("clock times").or_default() += 1;
        match line.body {
            Body::Begin(begin) => self.begin(begin, notes),
            Body::Text(text) => {
                self.demands.text(&text.ids, notes);
                self.prompts.text(text, notes)?;
            }
            Body::Request(request) => {
                self.step_floor_t_ns = t_ns;
                self.request(request, (before_t_ns, t_ns), notes)?;
            }
            Body::Prefix(prefix) => self.prefix(&prefix, notes)?,
            Body::Quarantine(line) => self.quarantine(&line, notes)?,
            Body::Kv(kv) => self.kv(&kv, notes)?,
            Body::Prefill(prefill) => self.prefill(&prefill, t_ns, notes)?,
            Body::Step(step) => self.step(&step, t_ns, notes),
            Body::Finish(finish) => self.finish(&finish, t_ns, notes)?,
            Body::Error(failure) => {
                let said = !failure.message.is_empty();
                notes.check(Layer::Format, said, || "message is empty".to_owned());
                self.error = Some(failure.message);
            }
            Body::End(end) => self.end(end, t_ns, notes)?,
            _ => {
                return Err(notes.stop("belongs into the trace of another program"));
            }
        }
        Ok(())
    }

    fn begin(&mut self, begin: Begin, notes: &mut Notebook) {
        let (asked, settings) = (self.asked, &begin.settings);
        let stated = [&*begin.envelope, &*begin.envelope_sha256, &*begin.arm];
        asked.check_head(&begin.schema, stated, begin.rep, notes);
        notes.same(Layer::Format, "cell", &begin.cell.as_deref(), &asked.cell);
        notes.same(
            Layer::Settings,
            "settings.cache",
            settings.cache.as_str(),
            self.cache.word(),
        );
        let batched = Cache::of_arm(asked.arm).is_some_and(|(_, batched)| batched);
        notes.same(
            Layer::Settings,
            "settings.batched",
            &settings.batched,
            &batched,
        );
        let shared = settings.cache == Cache::Shared.word();
        notes.check(
            Layer::Settings,
            shared || !settings.shared_attention,
            || {
                "settings.shared_attention is true, but nothing is shared with this cache"
                    .to_owned()
            },
        );
        notes.same(
            Layer::Settings,
            "settings.mode",
            settings.mode.as_str(),
            asked.mode,
        );
        notes.same(
            Layer::Settings,
            "settings.page_positions",
            &settings.page_positions,
            &64,
        );
        notes.same(Layer::Settings, "settings.greedy", &settings.greedy, &true);
        check_digests(&begin, notes);
        self.begin = Some(begin);
    }

    fn step(&mut self, step: &Step, t_ns: u64, notes: &mut Notebook) {
        let floor_t_ns = std::mem::replace(&mut self.step_floor_t_ns, t_ns);
        let Step {
            rows,
            requests,
            wall_ns,
            ..
        } = *step;
        let most = if self.batched() { self.open_peak } else { 1 };
        notes.check(
            Layer::Count,
            (1..=most).contains(&requests) && rows >= requests,
            || format!("{rows} rows of {requests} requests, at most {most} could take part"),
        );
        let sums = match step.phase.as_str() {
            "prefill" => &mut self.counted.prefill,
            "decode" => &mut self.counted.decode,
            other => {
                notes.broken(
                    Layer::Format,
                    format!("no phase is called {}", quote(other)),
                );
                return;
            }
        };
        let most_ns = t_ns.saturating_sub(floor_t_ns);
        notes.check(Layer::Clock, wall_ns <= most_ns, || {
            format!("the step says {wall_ns} ns, its clock leaves {most_ns}")
        });
        self.demands.step(step, (floor_t_ns, t_ns), notes);
        sums.rows = sums.rows.saturating_add(rows);
        sums.requests = sums.requests.saturating_add(requests);
        sums.wall_ns = sums.wall_ns.saturating_add(wall_ns);
        sums.gave(requests, most);
    }

    fn end(&mut self, end: End, t_ns: u64, notes: &mut Notebook) -> Result<(), Stop> {
        let open = self.requests.len();
        notes.insist(open == 0, || format!("{open} requests have not finished"))?;
        let stated = [end.load_ns, end.warmup_ns, end.wall_ns];
        let stated_ns = stated.into_iter().fold(0, u64::saturating_add);
        notes.check(Layer::Clock, stated_ns <= t_ns, || {
            format!("load, warm-up and wall say {stated_ns} ns, the clock stands at {t_ns}")
        });
        let counted = &self.counted;
        let times = counted.first_request_t_ns.zip(counted.last_finish_t_ns);
        let rows = [
            ("requests", end.requests, counted.requests),
            (
                "prefill_tokens_computed",
                end.prefill_tokens_computed,
                counted.computed,
            ),
            (
                "prefill_tokens_logical",
                end.prefill_tokens_logical,
                counted.logical,
            ),
            ("prefix_tokens_hit", end.prefix_tokens_hit, counted.matched),
            ("decode_tokens", end.decode_tokens, counted.decoded),
            ("carried_tokens", end.carried_tokens, counted.carried),
            ("replayed_tokens", end.replayed_tokens, counted.replayed),
            (
                "wall_ns",
                end.wall_ns,
                times.map_or(0, |(first, last)| last.saturating_sub(first)),
            ),
            ("prefill_ns", end.prefill_ns, counted.prefill.wall_ns),
            ("decode_ns", end.decode_ns, counted.decode.wall_ns),
        ];
        for (name, stated, recounted) in rows {
            notes.same(Layer::Count, name, &stated, &recounted);
        }
        notes.recomputed("end counters", rows.len() as u64);
        let nothing_held = end.kv_bytes_peak == 0;
        notes.check(
            Layer::Count,
            nothing_held == (self.asked.arm == MOCK),
            || {
                let bytes = end.kv_bytes_peak;
                format!("kv_bytes_peak is {bytes}: a scripted arm holds nothing, any other more")
            },
        );
        notes.check(Layer::Count, end.rss_bytes_peak != Some(0), || {
            "rss_bytes_peak is 0, expected more".to_owned()
        });
        *notes.asserted.entry("memory figures").or_default() += 2;
        let kv = self.kv_nodes.is_some();
        notes.check(Layer::Chain, kv || !self.asked.kv, || {
            "the envelope asks what the cache holds, and no line of kind `kv` says it".to_owned()
        });
        counted.check_steps(notes);
        self.demands.end(self.cache, counted, notes);
        self.end = Some(end);
        Ok(())
    }

    fn ended(&self) -> bool {
        self.end.is_some() || self.error.is_some()
    }

    fn batched(&self) -> bool {
        self.begin
            .as_ref()
            .is_some_and(|begin| begin.settings.batched)
    }

    fn into_trace(self) -> Option<Trace> {
        let begin = self.begin?;
        Some(Trace {
            begin,
            end: self.end,
            error: self.error,
            inputs_sha256: self.prompts.inputs_sha256(),
            outputs: self.prompts.into_outputs(),
            timed: self.demands.timed(),
            lines: self.lines,
            last_t_ns: self.last_t_ns,
            computed: self.computed,
            held_positions: self.held_positions,
            kv_nodes: self.kv_nodes,
        })
    }
}
