//! One trace line: its structs, and a reader that insists on the documented field order.
//!
//! Not here: whether a line may stand where it stands, or is true (`trace`).
#![allow(missing_docs)] // FORMAT.md documents every field

pub(crate) mod server;

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::admission::Admission;
use crate::envelope::lru;
use crate::format::{nullable, stated};
use server::{
    Answer, BeginScore, BeginServer, EndScore, EndServer, Prime, Primed, Probe, Ready, Score, Slot,
};

/// Chain fields and what the line says.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) prev: String,
    pub(crate) t_ns: u64,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Begin(Begin),
    BeginExternal(BeginExternal),
    External(External),
    EndExternal(EndExternal),
    BeginServer(BeginServer),
    Ready(Ready),
    Probe(Probe),
    Prime(Prime),
    Primed(Primed),
    Slot(Slot),
    Answer(Answer),
    EndServer(EndServer),
    BeginScore(BeginScore),
    Score(Score),
    EndScore(EndScore),
    Text(Text),
    Request(Request),
    Prefix(Prefix),
    Quarantine(Quarantine),
    Kv(Kv),
    Prefill(Prefill),
    Step(Step),
    Finish(Finish),
    Error(Failure),
    End(End),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) cache: String,
    pub(crate) batched: bool,
    /// Absent from traces of before the setting.
    #[serde(default)]
    pub(crate) shared_attention: bool,
    pub(crate) mode: String,
    pub(crate) kernels: String,
    pub(crate) threads: u64,
    pub(crate) kv_dtype: String,
    pub(crate) page_positions: u64,
    pub(crate) chunk_tokens: u64,
    pub(crate) kv_pages: u64,
    /// Absent from traces of before the setting.
    #[serde(default = "lru")]
    pub(crate) eviction: String,
    /// First come, first served where it is left out.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) admission: Option<Admission>,
    pub(crate) greedy: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Begin {
    pub(crate) schema: String,
    pub(crate) envelope: String,
    pub(crate) envelope_sha256: String,
    /// Only in runs of cells.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) cell: Option<String>,
    pub(crate) arm: String,
    pub(crate) rep: u64,
    pub(crate) model_sha256: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) tokenizer_sha256: Option<String>,
    pub(crate) settings: Settings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginExternal {
    pub(crate) schema: String,
    pub(crate) envelope: String,
    pub(crate) envelope_sha256: String,
    pub(crate) cell: String,
    pub(crate) arm: String,
    pub(crate) rep: u64,
    pub(crate) model_sha256: String,
    pub(crate) program: Program,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) name: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) sha256: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) libraries_sha256: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) version: Option<String>,
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct External {
    pub(crate) output: String,
    pub(crate) wall_ns: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndExternal {
    pub(crate) measurements: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Base {
    Text(String),
    Request(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) agent: u64,
    pub(crate) turn: u64,
    pub(crate) worker: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) base: Option<Base>,
    pub(crate) keep: u64,
    pub(crate) append: Vec<u32>,
    pub(crate) prompt_len: u64,
    pub(crate) prompt_sha256: String,
    pub(crate) decode_max: u64,
    pub(crate) ignore_eos: bool,
    /// Only of requests that come by the clock.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) due_ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prefix {
    pub(crate) request: String,
    pub(crate) matched: u64,
    pub(crate) own: u64,
    pub(crate) instance: u64,
    pub(crate) fleet: u64,
    pub(crate) store: u64,
    #[serde(default)]
    pub(crate) barred_at: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quarantine {
    pub(crate) request: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) pages: u64,
    pub(crate) running: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kv {
    pub(crate) nodes: Vec<KvNode>,
    pub(crate) tombstones: Vec<KvTombstone>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KvNode {
    pub(crate) id: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) parent: Option<u64>,
    pub(crate) positions: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) session: Option<String>,
    #[serde(rename = "hits")]
    _hits: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KvTombstone {
    #[serde(deserialize_with = "nullable")]
    pub(crate) parent: Option<u64>,
    pub(crate) start: u64,
    pub(crate) positions: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prefill {
    pub(crate) request: String,
    pub(crate) computed: u64,
    pub(crate) carried: u64,
    pub(crate) replayed: u64,
    pub(crate) chunks: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) phase: String,
    pub(crate) rows: u64,
    pub(crate) requests: u64,
    pub(crate) wall_ns: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finish {
    pub(crate) request: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) token_t_ns: Vec<u64>,
    pub(crate) batch: Vec<u64>,
    pub(crate) reason: String,
    pub(crate) logits_sha256: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    pub(crate) message: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) requests: u64,
    pub(crate) prefill_tokens_computed: u64,
    pub(crate) prefill_tokens_logical: u64,
    pub(crate) prefix_tokens_hit: u64,
    pub(crate) decode_tokens: u64,
    pub(crate) carried_tokens: u64,
    pub(crate) replayed_tokens: u64,
    pub(crate) load_ns: u64,
    pub(crate) warmup_ns: u64,
    pub(crate) wall_ns: u64,
    pub(crate) prefill_ns: u64,
    pub(crate) decode_ns: u64,
    pub(crate) kv_bytes_peak: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rss_bytes_peak: Option<u64>,
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object that begins with seq, prev, t_ns, kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
        let seq = field(&mut map, "seq")?;
        let prev = field(&mut map, "prev")?;
        let t_ns = field(&mut map, "t_ns")?;
        let kind: String = field(&mut map, "kind")?;
        let rest = MapAccessDeserializer::new(map);
        let body = match kind.as_str() {
            "begin" => Body::Begin(Begin::deserialize(rest)?),
            "begin_external" => Body::BeginExternal(BeginExternal::deserialize(rest)?),
            "external" => Body::External(External::deserialize(rest)?),
            "end_external" => Body::EndExternal(EndExternal::deserialize(rest)?),
            "begin_server" => Body::BeginServer(BeginServer::deserialize(rest)?),
            "ready" => Body::Ready(Ready::deserialize(rest)?),
            "probe" => Body::Probe(Probe::deserialize(rest)?),
            "prime" => Body::Prime(Prime::deserialize(rest)?),
            "primed" => Body::Primed(Primed::deserialize(rest)?),
            "slot" => Body::Slot(Slot::deserialize(rest)?),
            "answer" => Body::Answer(Answer::deserialize(rest)?),
            "end_server" => Body::EndServer(EndServer::deserialize(rest)?),
            "begin_score" => Body::BeginScore(BeginScore::deserialize(rest)?),
            "score" => Body::Score(Score::deserialize(rest)?),
            "end_score" => Body::EndScore(EndScore::deserialize(rest)?),
            "text" => Body::Text(Text::deserialize(rest)?),
            "request" => Body::Request(Request::deserialize(rest)?),
            "prefix" => Body::Prefix(Prefix::deserialize(rest)?),
            "quarantine" => Body::Quarantine(Quarantine::deserialize(rest)?),
            "kv" => Body::Kv(Kv::deserialize(rest)?),
            "prefill" => Body::Prefill(Prefill::deserialize(rest)?),
            "step" => Body::Step(Step::deserialize(rest)?),
            "finish" => Body::Finish(Finish::deserialize(rest)?),
            "error" => Body::Error(Failure::deserialize(rest)?),
            "end" => Body::End(End::deserialize(rest)?),
            other => return Err(A::Error::custom(format!("no line is of kind {other:?}"))),
        };
        Ok(Line {
            seq,
            prev,
            t_ns,
            body,
        })
    }
}

fn field<'de, A, T>(map: &mut A, name: &str) -> Result<T, A::Error>
where
    A: MapAccess<'de>,
    T: Deserialize<'de>,
{
    match map.next_key::<String>()? {
        Some(key) if key == name => map.next_value(),
        other => Err(A::Error::custom(format!(
            "field {name:?} expected here, found {other:?}"
        ))),
    }
}
