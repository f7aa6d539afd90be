//! The trace of an arm that another engine answers: what it was asked over the wire, and what it says it found and did.
//!
//! Prompts and their order are those of our own arms and are read by the same code. Not here: whether the server counted
//! or timed truly. Both are its own word, or ours of our clock.

mod answers;
pub(crate) mod figures;
mod prepare;
pub(crate) mod score;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;

use answers::Open;
use prepare::Copied;

use crate::chain;
use crate::envelope::Envelope;
use crate::external::check_digests;
use crate::line::server::{BeginServer, EndServer, Ready, ServerSettings};
use crate::line::{Body, Line, Program};
use crate::notebook::{Layer, Notebook, Stop, quote};
use crate::oracle::{Cache, served_with_flash};
use crate::session::Session;
use crate::trace::{Asked, Output, Prompts, Reuse};

/// What comparison between traces, and scoring, need of one.
#[derive(Debug)]
pub(crate) struct ServerTrace {
    pub(crate) begin: BeginServer,
    /// `None` where it never answered that it is ready.
    pub(crate) settings: Option<ServerSettings>,
    pub(crate) load_ns: u64,
    /// Ids it was not free to choose.
    pub(crate) barred: Vec<u32>,
    /// `None` when the trace ended in `error`.
    pub(crate) end: Option<EndServer>,
    /// The message of that `error` line.
    pub(crate) error: Option<String>,
    /// By (agent, turn).
    pub(crate) outputs: BTreeMap<(u64, u64), Output>,
    /// Every answer in the order they came.
    pub(crate) answered: Vec<Answered>,
    /// As of our own traces.
    pub(crate) inputs_sha256: BTreeMap<u64, String>,
    /// By turn: positions it says it computed, null where it did not say so of every request.
    pub(crate) computed: BTreeMap<u64, Option<u64>>,
    pub(crate) lines: u64,
}

/// An answer that may be scored.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) request: String,
    /// Agent and turn.
    pub(crate) of: (u64, u64),
}

/// Sums over one trace, recounted.
#[derive(Default)]
struct Sums {
    requests: u64,
    prompt_tokens: u64,
    decode_tokens: u64,
    cached: Option<u64>,
    /// By turn, what was computed for all of them with the first.
    computed: BTreeMap<u64, Option<u64>>,
    first_t_ns: Option<u64>,
    last_t_ns: Option<u64>,
}

/// What has been read so far.
struct Reader<'a> {
    asked: &'a Asked<'a>,
    envelope: &'a Envelope,
    session: Session,
    shares: bool,
    lines: u64,
    last_t_ns: u64,
    begin: Option<BeginServer>,
    begun_t_ns: u64,
    ready: Option<Ready>,
    /// How many were seen.
    probes: usize,
    copied: Copied,
    prompts: Prompts,
    open: BTreeMap<String, Open>,
    answered: Vec<Answered>,
    reuse: Reuse,
    sums: Sums,
    end: Option<EndServer>,
    error: Option<String>,
}

/// Reads `name` in `dir`; `None` when it could not be followed to its end.
pub(crate) fn read(
    dir: &Path,
    name: &str,
    asked: &Asked<'_>,
    envelope: &Envelope,
    notes: &mut Notebook,
) -> Option<ServerTrace> {
    notes.open(name);
    let cache = Cache::of_arm(asked.arm)?.0;
    let mut reader = Reader {
        asked,
        envelope,
        session: Session::new(envelope, asked.arm),
        shares: cache == Cache::Shared,
        lines: 0,
        last_t_ns: 0,
        begin: None,
        begun_t_ns: 0,
        ready: None,
        probes: 0,
        copied: Copied::default(),
        prompts: Prompts::default(),
        open: BTreeMap::new(),
        answered: Vec::new(),
        reuse: Reuse::new(cache),
        sums: Sums {
            cached: Some(0),
            ..Sums::default()
        },
        end: None,
        error: None,
    };
    let whole = chain::read(&dir.join(name), notes, |line, notes| {
        reader.take(line, notes).is_ok()
    });
    if whole && !reader.ended() {
        notes.broken(
            Layer::Chain,
            "is truncated: the last line is neither `end_server` nor `error`",
        );
    }
    (whole && reader.ended())
        .then(|| reader.into_trace())
        .flatten()
}

/// Another count, unless one of them was not told.
fn plus(sum: Option<u64>, told: Option<u64>) -> Option<u64> {
    Some(sum?.saturating_add(told?))
}

impl Reader<'_> {
    /// Takes one line.
    fn take(&mut self, line: Line, notes: &mut Notebook) -> Result<(), Stop> {
        notes.insist(!self.ended(), || {
            "nothing may follow `end_server` or `error`".to_owned()
        })?;
        let first = self.begin.is_none();
        notes.insist(matches!(line.body, Body::BeginServer(_)) == first, || {
            "`begin_server` is the first line and only the first".to_owned()
        })?;
        self.lines += 1;
        *notes.asserted.entry("clock times").or_default() += 1;
        let t_ns = line.t_ns;
        let before_t_ns = std::mem::replace(&mut self.last_t_ns, t_ns);
        match line.body {
            Body::BeginServer(begin) => self.begin(begin, t_ns, notes),
            Body::Ready(ready) => self.ready(ready, t_ns, notes)?,
            Body::Probe(probe) => self.probe(&probe, notes)?,
            Body::Text(text) => self.text(text, notes)?,
            Body::Prime(prime) => self.prime(prime, t_ns, notes)?,
            Body::Primed(primed) => self.primed(&primed, t_ns, notes)?,
            Body::Slot(slot) => self.slot(&slot, t_ns, notes)?,
            Body::Request(request) => self.request(request, (before_t_ns, t_ns), notes)?,
            Body::Answer(answer) => self.answer(answer, t_ns, notes)?,
            Body::EndServer(end) => self.end(end, t_ns, notes)?,
            Body::Error(failure) => {
                let said = !failure.message.is_empty();
                notes.check(Layer::Format, said, || "message is empty".to_owned());
                self.error = Some(failure.message);
            }
            _ => return Err(notes.stop("does not belong into the trace of another engine")),
        }
        Ok(())
    }

    fn begin(&mut self, begin: BeginServer, t_ns: u64, notes: &mut Notebook) {
        let stated = [&*begin.envelope, &*begin.envelope_sha256, &*begin.arm];
        (self.asked).check_head(&begin.schema, stated, begin.rep, notes);
        check_digests(&begin.model_sha256, &begin.program, notes);
        self.check_arguments(&begin.program, notes);
        self.begun_t_ns = t_ns;
        self.begin = Some(begin);
    }

    /// The arguments name files without their paths, and what they say of the arm is so.
    fn check_arguments(&self, program: &Program, notes: &mut Notebook) {
        if program.arguments.is_empty() {
            // It ran before, and nobody saw its file.
            let Program {
                sha256,
                libraries_sha256,
                version,
                ..
            } = program;
            let told = [sha256, libraries_sha256, version];
            let unknown = told.iter().all(|it| it.is_none());
            notes.check(Layer::Settings, unknown, || {
                "program: of one that was started without arguments nothing else can be known"
                    .to_owned()
            });
            return;
        }
        let after = |names: [&str; 2]| {
            let mut all = program.arguments.iter();
            all.find(|it| names.contains(&it.as_str()))?;
            all.next().map(String::as_str)
        };
        let has_path = |it: &String| it.contains(['/', '\\']);
        let plain = !program.arguments.iter().any(has_path);
        let model = after(["-m", "--model"]).filter(|it| !it.is_empty());
        notes.check(Layer::Format, plain && model.is_some(), || {
            "program.arguments: there is no model after -m, or a file has a path".to_owned()
        });
        let port = after(["--port", "--port"]);
        notes.same(Layer::Format, "the port", &port, &Some("PORT"));
        let fused = served_with_flash(self.asked.arm).unwrap_or_default();
        let switch = if fused { "on" } else { "off" };
        let (threads, slots) = (self.threads().to_string(), self.slots().to_string());
        for (what, stated, asked) in [
            ("-t", after(["-t", "--threads"]), &*threads),
            ("-np", after(["-np", "--parallel"]), &*slots),
            ("-fa", after(["-fa", "--flash-attn"]), switch),
        ] {
            let obeys = stated.is_none_or(|it| it == asked);
            notes.check(Layer::Settings, obeys, || {
                format!(
                    "program.arguments: {what} is {}, expected {asked}",
                    quote(&stated)
                )
            });
        }
    }

    fn end(&mut self, end: EndServer, t_ns: u64, notes: &mut Notebook) -> Result<(), Stop> {
        let open = self.open.len();
        notes.insist(open == 0, || format!("{open} requests were not answered"))?;
        let load_ns = self.ready.as_ref().map_or(0, |ready| ready.load_ns);
        let stated = [load_ns, end.warmup_ns, end.wall_ns];
        let stated_ns = stated.into_iter().fold(0, u64::saturating_add);
        notes.check(Layer::Clock, stated_ns <= t_ns, || {
            format!("load, warm-up and wall say {stated_ns} ns, the clock stands at {t_ns}")
        });
        let sums = &self.sums;
        let computed = sums.computed.values().copied().fold(Some(0), plus);
        let times = sums.first_t_ns.zip(sums.last_t_ns);
        let wall_ns = times.map_or(0, |(first, last)| last.saturating_sub(first));
        for (what, stated, recounted) in [
            ("requests", Some(end.requests), Some(sums.requests)),
            (
                "prompt_tokens",
                Some(end.prompt_tokens),
                Some(sums.prompt_tokens),
            ),
            ("cached_tokens", end.cached_tokens, sums.cached),
            ("computed_tokens", end.computed_tokens, computed),
            (
                "decode_tokens",
                Some(end.decode_tokens),
                Some(sums.decode_tokens),
            ),
            ("wall_ns", Some(end.wall_ns), Some(wall_ns)),
        ] {
            notes.same(Layer::Count, what, &stated, &recounted);
            notes.recomputed("end counters", 1);
        }
        notes.check(Layer::Count, end.rss_bytes_peak != Some(0), || {
            "rss_bytes_peak is 0, expected more".to_owned()
        });
        *notes.asserted.entry("memory figures").or_default() += 1;
        let (requests, prompts, decoded) = (sums.requests, sums.prompt_tokens, sums.decode_tokens);
        self.session.sums(requests, prompts, decoded, notes);
        self.end = Some(end);
        Ok(())
    }

    fn threads(&self) -> u64 {
        self.envelope.run.threads
    }

    /// One for each agent.
    fn slots(&self) -> u64 {
        self.envelope.workload.agents
    }

    fn ended(&self) -> bool {
        self.end.is_some() || self.error.is_some()
    }

    fn into_trace(self) -> Option<ServerTrace> {
        let (settings, barred, load_ns) = self.ready.map_or((None, Vec::new(), 0), |ready| {
            (Some(ready.settings), ready.barred, ready.load_ns)
        });
        Some(ServerTrace {
            begin: self.begin?,
            settings,
            load_ns,
            barred,
            end: self.end,
            error: self.error,
            inputs_sha256: self.prompts.inputs_sha256(),
            outputs: self.prompts.into_outputs(),
            answered: self.answered,
            computed: self.sums.computed,
            lines: self.lines,
        })
    }
}
