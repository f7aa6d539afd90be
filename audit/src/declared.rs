//! envelope.toml, as the user gave it, against envelope.json, as it was resolved: what was asked is what was run.
//!
//! Not here: what the envelope means (`envelope`).

use std::path::Path;

use serde_json::{Value, json};

use crate::format;
use crate::notebook::{Layer, Notebook, brief};
use crate::oracle::{LADDER, MOCK};
use crate::toml::{self, Why};

/// What `harness run` lets the command line replace.
const REPLACEABLE: [&str; 6] = [
    "model",
    "mode",
    "run.arms",
    "run.reps",
    "run.threads",
    "run.kernels",
];
/// Numbers by arm; an arm that the command line leaves out loses its.
const BY_ARM: [&str; 2] = ["run.arm_reps", "run.arm_turns"];

/// Compares the two; whatever the command line may have replaced is named and not judged.
pub(crate) fn check(dir: &Path, notes: &mut Notebook) {
    let resolved: Option<Value> = format::read(dir, "envelope.json", &mut Notebook::default());
    let (Some(text), Some(resolved)) = (format::text(dir, "envelope.toml", notes), resolved) else {
        return;
    };
    let written = match toml::read(&text) {
        Ok(written) => written,
        Err(toml::Unread { line, why }) => return unread(line, why, notes),
    };
    let arms = resolved.pointer("/run/arms").and_then(Value::as_array);
    let mut comparison = Comparison {
        text: &text,
        arms: arms.map_or(&[], Vec::as_slice),
        reps: resolved.pointer("/run/reps"),
        counts_tasks: resolved.pointer("/workload/dataset").is_some(),
        notes,
        replaced: Vec::new(),
    };
    comparison.table("", &written, &resolved);
    let replaced = comparison.replaced;
    if !replaced.is_empty() {
        let paths = replaced.join(", ");
        let what = format!("whether the command line replaced {paths}: envelope.toml has others");
        notes.not_checked.push(what);
    }
}

/// A line that no reader of TOML takes was not what the run began with; of others the audit says that it did not read them.
fn unread(line: usize, why: Why, notes: &mut Notebook) {
    match why {
        Why::Forbidden(what) => {
            notes.turn_to(Some(line as u64));
            notes.broken(Layer::Declared, format!("is not TOML: {what}"));
            notes.turn_to(None);
        }
        Why::Unknown(what) => notes.not_checked.push(format!(
            "whether envelope.toml resolves to envelope.json: line {line} has {what}, which is not read here"
        )),
    }
}

/// What envelope.json leaves out too where it has its default.
const LEFT_OUT: [&str; 6] = [
    "workload.order",
    "workload.passes",
    "run.eviction",
    "run.margin_millinats",
    "run.request_limit_s",
    "evidence.kv",
];

struct Comparison<'a> {
    text: &'a str,
    /// Resolved arms, and repetitions of each.
    arms: &'a [Value],
    reps: Option<&'a Value>,
    /// Whether what is counted are the tasks of a data set.
    counts_tasks: bool,
    notes: &'a mut Notebook,
    /// Paths that differ and may.
    replaced: Vec<String>,
}

impl Comparison<'_> {
    /// Every key of either.
    fn table(&mut self, path: &str, written: &Value, resolved: &Value) {
        let keys = |value: &Value| -> Vec<String> {
            let object = value.as_object();
            object.map_or(Vec::new(), |it| it.keys().cloned().collect())
        };
        let mut all = [keys(written), keys(resolved)].concat();
        all.sort_unstable();
        all.dedup();
        for key in all {
            let dot = if path.is_empty() { "" } else { "." };
            let below = format!("{path}{dot}{key}");
            self.value(&below, &key, written.get(&key), resolved.get(&key));
        }
    }

    fn value(&mut self, path: &str, key: &str, written: Option<&Value>, resolved: Option<&Value>) {
        if path == "workload.tasks" && self.counts_tasks && written.is_none() {
            return; // they come from the data set
        }
        if BY_ARM.contains(&path) {
            return self.by_arm(path, key, written, resolved);
        }
        if path == "mock" && resolved.is_none() && written.is_some() && !self.runs(MOCK) {
            return self.replaced.push(path.to_owned()); // with the arm that it scripts
        }
        let nested = |value: Option<&Value>| value.is_none_or(Value::is_object);
        if nested(written) && nested(resolved) {
            let none = json!({});
            let (written, resolved) = (written.unwrap_or(&none), resolved.unwrap_or(&none));
            return self.table(path, written, resolved);
        }
        if let (Some(Value::Array(written)), Some(Value::Array(resolved))) = (written, resolved)
            && path == "workload.cells"
            && written.len() == resolved.len()
        {
            for (place, (written, resolved)) in written.iter().zip(resolved).enumerate() {
                self.table(&format!("{path}[{place}]"), written, resolved);
            }
            return;
        }
        let default = default(path);
        let expected = written.or(default.as_ref());
        let left_out = default.as_ref().filter(|_| LEFT_OUT.contains(&path));
        let resolved = resolved.or(left_out);
        if expected == resolved || (path == "run.threads" && written.is_none()) {
            self.notes.recomputed("envelope values", 1);
        } else if REPLACEABLE.contains(&path) {
            self.replaced.push(path.to_owned());
        } else {
            self.differs(path, key, expected, resolved);
        }
    }

    fn runs(&self, arm: &str) -> bool {
        self.arms.iter().any(|it| it == arm)
    }

    /// Repetitions, where an arm has no own, are `reps`. The command line may have said how many: then all arms have those.
    fn by_arm(&mut self, path: &str, key: &str, written: Option<&Value>, resolved: Option<&Value>) {
        let (arms, reps) = (self.arms, self.reps.filter(|_| path == BY_ARM[0]));
        let number_of = |arm: &str| resolved.and_then(|by_arm| by_arm.get(arm));
        let has_reps = |arm: &str| reps.is_some() && number_of(arm) == reps;
        let replaceable = arms.iter().filter_map(Value::as_str).all(has_reps);
        for arm in arms.iter().filter_map(Value::as_str) {
            let stated = written.and_then(|by_arm| by_arm.get(arm));
            let (expected, number) = (stated.or(reps), number_of(arm));
            let path = format!("{path}.{arm}");
            if expected == number {
                self.notes.recomputed("envelope values", 1);
            } else if replaceable {
                self.replaced.push(path);
            } else {
                self.differs(&path, key, expected, number);
            }
        }
    }

    fn differs(&mut self, path: &str, key: &str, expected: Option<&Value>, found: Option<&Value>) {
        let is_key = |line: &str| line.trim_start().starts_with(key);
        let line = self.text.lines().position(is_key);
        self.notes.turn_to(line.map(|line| line as u64 + 1));
        let words = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
        let (expected, found) = (brief(words(expected)), brief(words(found)));
        let message = format!("{path} is {expected} here or by default, envelope.json has {found}");
        self.notes.broken(Layer::Declared, message);
    }
}

/// What a key left out stands for; `run.threads` has the machine's cores.
fn default(path: &str) -> Option<Value> {
    let of_cell = path
        .strip_prefix("workload.cells[")
        .and_then(|rest| rest.split_once("]."));
    Some(match (path, of_cell) {
        ("mode", _) => json!("exact"),
        ("workload.workers" | "workload.seed" | "workload.passes", _)
        | (_, Some((_, "agents"))) => json!(1),
        ("workload.limit_s", _) => json!(900),
        ("run.arms", _) => json!(LADDER),
        ("run.reps", _) => json!(5),
        ("run.kernels", _) => json!("auto"),
        ("run.chunk_tokens", _) => json!(256),
        ("run.kv_pages", _) => json!(4096),
        ("evidence.prompts", _) => json!("ids"),
        ("workload.order", _) => json!("turns"),
        ("run.eviction", _) => json!("lru"),
        ("run.margin_millinats", _) => json!(100),
        ("run.request_limit_s", _) => json!(600),
        ("evidence.kv", _) => json!(false),
        (
            "mock.prefill_ns_per_token" | "mock.decode_ns_per_token" | "mock.jitter_thousandths",
            _,
        )
        | (_, Some((_, "prompt" | "depth" | "decode" | "shared"))) => json!(0),
        _ => return None,
    })
}
