//! Trace lines: the wire types of `trace/<arm>-<rep>.jsonl` and the hash chain that ties them together.
//!
//! The format is audit/FORMAT.md. Not here: when a line is written (the arm decides) or whether it is true (`audit`).

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::envelope::Admission;

pub mod server;

/// Schema tag of the `begin` line.
pub const TRACE_SCHEMA: &str = "fak.trace/1";

/// What a request continues: a named text or an earlier request's prompt and output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// A prefix stated by a `text` line.
    Text(String),
    /// An earlier request of the same trace.
    Request(String),
}

/// The settings an arm really ran with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `none`, `session` or `shared`.
    pub cache: String,
    /// Several requests per step.
    pub batched: bool,
    /// A page that several requests hold is attended once for up to eight neighbouring rows of a step. Traces from before the setting lack it.
    #[serde(default)]
    pub shared_attention: bool,
    /// Numeric mode.
    pub mode: String,
    /// Kernel set used.
    pub kernels: String,
    /// Worker threads.
    pub threads: usize,
    /// Element type of cached keys and values.
    pub kv_dtype: String,
    /// Positions per KV page.
    pub page_positions: usize,
    /// Positions prefilled per step at most.
    pub chunk_tokens: usize,
    /// Pages the pool may hold.
    pub kv_pages: usize,
    /// Which pages go first when room is needed. Traces from before the setting lack it.
    #[serde(default = "least_recently_used")]
    pub eviction: String,
    /// Which of the requests that wait goes first; whoever came first where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// Arg-max decoding.
    pub greedy: bool,
}

fn least_recently_used() -> String {
    "lru".to_owned()
}

/// A page of the tree a cache keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvNode {
    /// Its number; any, but each once.
    pub id: usize,
    /// The page it continues; none where a text begins.
    pub parent: Option<usize>,
    /// Positions it holds.
    pub positions: usize,
    /// Who wrote it, where that is known.
    pub session: Option<String>,
    /// How often it was found.
    pub hits: u64,
}

/// A text that is refused, at its place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvTombstone {
    /// The page it continues; none where a text begins, or where that page is gone.
    pub parent: Option<usize>,
    /// The position it begins at.
    pub start: usize,
    /// Positions of it that the key names.
    pub positions: usize,
}

/// Another program, as an arm started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The name of its file.
    pub name: String,
    /// SHA-256 of its file; none if there is none.
    pub sha256: Option<String>,
    /// SHA-256 over the shared libraries beside it, which do its work: lines `name sha256`, sorted; none without any.
    pub libraries_sha256: Option<String>,
    /// What it says its version is.
    pub version: Option<String>,
    /// Its arguments, exactly. It runs where the model is, so no path stands in them.
    pub arguments: Vec<String>,
}

/// What a trace line says, without its chain fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // audit/FORMAT.md documents every field
pub enum Body {
    Begin {
        schema: String,
        envelope: String,
        envelope_sha256: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<String>,
        arm: String,
        rep: usize,
        model_sha256: String,
        tokenizer_sha256: Option<String>,
        settings: Settings,
    },
    BeginExternal {
        schema: String,
        envelope: String,
        envelope_sha256: String,
        cell: String,
        arm: String,
        rep: usize,
        model_sha256: String,
        program: Program,
    },
    Text {
        name: String,
        ids: Vec<u32>,
    },
    Request {
        id: String,
        session: String,
        agent: usize,
        turn: usize,
        worker: usize,
        base: Option<Base>,
        keep: usize,
        append: Vec<u32>,
        prompt_len: usize,
        prompt_sha256: String,
        decode_max: usize,
        ignore_eos: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due_ns: Option<u64>,
    },
    Prefix {
        request: String,
        matched: usize,
        own: usize,
        instance: usize,
        fleet: usize,
        store: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        barred_at: Option<usize>,
    },
    Quarantine {
        request: String,
        start: usize,
        end: usize,
        pages: usize,
        running: usize,
    },
    Kv {
        nodes: Vec<KvNode>,
        tombstones: Vec<KvTombstone>,
    },
    Prefill {
        request: String,
        computed: usize,
        carried: usize,
        replayed: usize,
        chunks: usize,
    },
    Step {
        phase: String,
        rows: usize,
        requests: usize,
        wall_ns: u64,
    },
    Finish {
        request: String,
        ids: Vec<u32>,
        token_t_ns: Vec<u64>,
        batch: Vec<usize>,
        reason: String,
        logits_sha256: String,
    },
    External {
        output: String,
        wall_ns: u64,
    },
    EndExternal {
        measurements: usize,
    },
    BeginServer(server::BeginServer),
    Ready(server::Ready),
    Probe(server::Probe),
    Prime(server::Prime),
    Primed(server::Primed),
    Slot(server::Slot),
    Answer(server::Answer),
    EndServer(server::EndServer),
    BeginScore(server::BeginScore),
    Score(server::Score),
    EndScore(server::EndScore),
    Error {
        message: String,
    },
    End {
        requests: usize,
        prefill_tokens_computed: u64,
        prefill_tokens_logical: u64,
        prefix_tokens_hit: u64,
        decode_tokens: u64,
        carried_tokens: u64,
        replayed_tokens: u64,
        load_ns: u64,
        warmup_ns: u64,
        wall_ns: u64,
        prefill_ns: u64,
        decode_ns: u64,
        kv_bytes_peak: u64,
        rss_bytes_peak: Option<u64>,
    },
}

/// One line: chain fields first, then the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// 0, 1, 2, ...
    pub seq: u64,
    /// SHA-256 of the bytes of the line before; 64 zeros for the first.
    pub prev: String,
    /// Monotonic nanoseconds since the trace began.
    pub t_ns: u64,
    /// The statement itself.
    #[serde(flatten)]
    pub body: Body,
}

/// Writes chained lines to `out`, one flush per line so that a reader sees whole lines only.
pub struct TraceWriter<W: Write> {
    out: W,
    seq: u64,
    prev: String,
}

impl<W: Write> TraceWriter<W> {
    /// A writer at the start of a trace.
    pub fn new(out: W) -> Self {
        Self {
            out,
            seq: 0,
            prev: "0".repeat(64),
        }
    }

    /// Appends one line stamped `t_ns`.
    pub fn write(&mut self, t_ns: u64, body: Body) -> io::Result<()> {
        let line = Line {
            seq: self.seq,
            prev: std::mem::take(&mut self.prev),
            t_ns,
            body,
        };
        let text = serde_json::to_string(&line).map_err(io::Error::other)?;
        self.prev = sha256_hex(text.as_bytes());
        self.seq += 1;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }
}

/// Lower-case hex SHA-256.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Hash of token ids: SHA-256 over their little-endian bytes.
pub fn ids_sha256(ids: &[u32]) -> String {
    let mut hasher = Sha256::new();
    for id in ids {
        hasher.update(id.to_le_bytes());
    }
    hex(&hasher.finalize())
}

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
            text
        })
}
