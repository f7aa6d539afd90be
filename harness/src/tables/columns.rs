//! The columns of every table: name, kind and one line of meaning.
//!
//! Names are those of the run record, units last. Not here: where values come from (`rows`).

use super::TableName;

/// What a column holds; any may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number of 64 bits.
    Whole,
    /// A double.
    Real,
    /// True or false.
    Flag,
}

impl Kind {
    /// As `--tables` calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Whole => "whole",
            Self::Real => "real",
            Self::Flag => "flag",
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in SQL and in files.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What that is, in one line.
    pub meaning: &'static str,
}

type Said = (&'static str, Kind, &'static str);

use Kind::{Flag, Real, Text, Whole};

/// In front of every table, so that none needs a join to be narrowed down.
const COMMON: &[Said] = &[
    ("run", Text, "its directory below results/, or as given"),
    ("envelope", Text, "the envelope's name"),
    (
        "date",
        Text,
        "the day of its newest sitting, yyyy-mm-dd in UTC",
    ),
    (
        "machine_class",
        Text,
        "instruction set and cores, such as x86_64-avx512-2c",
    ),
    (
        "speaks",
        Flag,
        "whether pages quote it: the newest fit run of its envelope and machine class",
    ),
    ("model", Text, "the model's name"),
    ("mode", Text, "numeric mode of our engine, exact or fast"),
];

const RUNS: &[Said] = &[
    ("kind", Text, "session or engine"),
    ("anchored", Flag, "whether results/INDEX has it"),
    (
        "silent",
        Text,
        "why pages do not quote it; null where they do",
    ),
    (
        "sums_sha256",
        Text,
        "sha256 of its SHA256SUMS, which names every file of it",
    ),
    ("envelope_sha256", Text, "sha256 of its envelope.json"),
    ("complete", Flag, "every requested repetition ended well"),
    (
        "identity_equal",
        Flag,
        "our arms answered alike, bit for bit",
    ),
    (
        "verdict",
        Text,
        "of fused over instance-shared; null in engine work",
    ),
    ("model_label", Text, "real or synthetic"),
    ("model_sha256", Text, "sha256 of the model file"),
    ("kernels", Text, "kernel set our engine used"),
    ("threads", Whole, "threads of our engine"),
    (
        "kv_dtype",
        Text,
        "type of cached keys and values in our engine",
    ),
    ("version", Text, "the program's version"),
    (
        "commit",
        Text,
        "commit it was built from; null where none was known",
    ),
    ("dirty", Flag, "whether that tree had other changes"),
    (
        "debug_assertions",
        Flag,
        "whether it was built with them, which backs no timing",
    ),
    ("cpu", Text, "the processor's name"),
    ("cores", Whole, "cores"),
    (
        "memory_bytes",
        Whole,
        "memory; null where the system does not say",
    ),
    ("os", Text, "operating system"),
    (
        "started_unix_s",
        Whole,
        "start of its newest sitting, seconds since 1970",
    ),
    (
        "load1_before",
        Real,
        "load of the machine before that sitting",
    ),
    (
        "noise_spread",
        Real,
        "how much slower the slower tenth of a fixed piece of work was than the fastest",
    ),
];

const SAMPLES: &[Said] = &[
    ("cell", Text, "piece of engine work; null in sessions"),
    ("arm", Text, "who was asked"),
    ("rep", Whole, "the repetition, from 0"),
    (
        "provenance",
        Text,
        "WITNESSED, OBSERVED (another engine) or SIMULATED (scripted)",
    ),
    (
        "cache",
        Text,
        "none, session or shared; null in engine work",
    ),
    (
        "batched",
        Flag,
        "whether it answers several requests at once; null in engine work",
    ),
    (
        "turns",
        Whole,
        "turns an agent plays, fewer in arms of a smaller shape; null in engine work",
    ),
    (
        "wall_ns",
        Whole,
        "first submit to last finish; null in engine work",
    ),
    (
        "prefill_ns",
        Whole,
        "of that, in steps of prefill; null of other engines",
    ),
    (
        "decode_ns",
        Whole,
        "of that, in steps of decoding; null of other engines",
    ),
    (
        "load_ns",
        Whole,
        "loading the model, before and not in wall_ns",
    ),
    ("warmup_ns", Whole, "warming up, before and not in wall_ns"),
    (
        "kv_bytes_peak",
        Whole,
        "most memory that cached keys and values took; null of other engines",
    ),
    ("rss_bytes_peak", Whole, "most memory the process took"),
    (
        "requests",
        Whole,
        "requests answered; counters are equal in all repetitions, else null",
    ),
    (
        "prefill_tokens_computed",
        Whole,
        "positions of client-supplied text that were computed",
    ),
    ("prefill_tokens_logical", Whole, "sum of prompt lengths"),
    (
        "prefix_tokens_hit",
        Whole,
        "sum of positions found in a cache",
    ),
    ("decode_tokens", Whole, "tokens sampled"),
    (
        "carried_tokens",
        Whole,
        "positions of sampled tokens written in the next turn; null of other engines",
    ),
    (
        "replayed_tokens",
        Whole,
        "positions run again for logits alone; null of other engines",
    ),
    (
        "reuse_rate",
        Real,
        "prefix_tokens_hit over prefill_tokens_logical",
    ),
    (
        "tokens",
        Whole,
        "tokens of the timed part of a cell; null in sessions",
    ),
    (
        "timed_ns",
        Whole,
        "time of the timed part of a cell; null in sessions",
    ),
    (
        "process_ns",
        Whole,
        "time of the whole process of a cell; null in sessions",
    ),
    (
        "tokens_per_s",
        Real,
        "tokens over timed_ns; null in sessions",
    ),
    (
        "outlier",
        Flag,
        "beyond Tukey's fences of its arm; null where that was not recorded",
    ),
    (
        "beyond_margin",
        Flag,
        "whether our exact model rejects a token of another engine's answers; null if not scored",
    ),
];

const RATIOS: &[Said] = &[
    ("cell", Text, "piece of engine work; null in sessions"),
    ("arm", Text, "the arm in question"),
    ("denominator", Text, "the arm it is held against"),
    (
        "label",
        Text,
        "floor where the denominator is naive, which nobody ships",
    ),
    ("pairs", Whole, "pairs of repetitions"),
    (
        "prefill_tokens",
        Real,
        "computed by the denominator over computed by the arm",
    ),
    (
        "wall",
        Real,
        "median of pairs, wall time of the denominator over that of the arm; above 1 is faster",
    ),
    (
        "speed",
        Real,
        "the same of a cell, from rates; above 1 is faster",
    ),
    (
        "low",
        Real,
        "lower end of the interval of wall, or of speed",
    ),
    ("high", Real, "upper end of it"),
    ("prefill", Real, "as wall, of the time of prefill alone"),
    (
        "verdict",
        Text,
        "FASTER, SLOWER, PARITY or INCONCLUSIVE; null where withheld",
    ),
    (
        "withheld",
        Text,
        "why times are not compared; null where they are",
    ),
];

const REQUESTS: &[Said] = &[
    ("cell", Text, "piece of engine work; null in sessions"),
    ("arm", Text, "who was asked"),
    ("rep", Whole, "the repetition, from 0"),
    ("request", Text, "its id, unique in its trace"),
    ("session", Text, "whose transcript it continues"),
    ("agent", Whole, "who asks, from 0"),
    ("turn", Whole, "the how manieth time, from 0"),
    ("worker", Whole, "the process that served it, from 0"),
    ("prompt_len", Whole, "tokens of its prompt"),
    (
        "matched",
        Whole,
        "of those found in a cache; of another engine as it says itself",
    ),
    (
        "computed",
        Whole,
        "of those computed; of another engine as it says itself",
    ),
    (
        "carried",
        Whole,
        "of those sampled in the turn before and written now; null of other engines",
    ),
    (
        "replayed",
        Whole,
        "of those run again for logits alone; null of other engines",
    ),
    (
        "chunks",
        Whole,
        "pieces the prompt was computed in; null of other engines",
    ),
    (
        "output_tokens",
        Whole,
        "tokens of the answer; null where none came",
    ),
    ("reason", Text, "why the answer ended"),
    (
        "due_ns",
        Whole,
        "when it was due; null unless requests come by the clock",
    ),
    (
        "submit_ns",
        Whole,
        "when it was handed over, on the trace's clock",
    ),
    (
        "finish_ns",
        Whole,
        "when its answer was whole, on the trace's clock",
    ),
    (
        "ttft_ns",
        Whole,
        "from handing over to the first token; null where the answer came in one piece",
    ),
    (
        "tpot_ns",
        Whole,
        "(e2e_ns - ttft_ns) over the tokens after the first, rounded down",
    ),
    ("e2e_ns", Whole, "from handing over to the last token"),
];

/// The columns of a table, in order.
pub(super) fn of(name: TableName) -> Vec<Column> {
    let own = match name {
        TableName::Runs => RUNS,
        TableName::Samples => SAMPLES,
        TableName::Requests => REQUESTS,
        TableName::Ratios => RATIOS,
    };
    let all = COMMON.iter().chain(own);
    all.map(|&(name, kind, meaning)| Column {
        name,
        kind,
        meaning,
    })
    .collect()
}
