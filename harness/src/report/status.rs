//! The block on every page that says how far its numbers go: runs that speak, their dates and machines, and how many ratios
//! have which verdict.
//!
//! Everything is counted from anchored runs. Not here: any one figure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::evidence::Anchored;

/// What templates see as `status`.
pub(super) fn context(runs: &[Anchored]) -> Value {
    let speaking: Vec<&Anchored> = runs.iter().filter(|run| run.silent.is_none()).collect();
    let dates: BTreeSet<String> = speaking.iter().filter_map(|run| run.date()).collect();
    let mut verdicts: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = |verdict: &Option<String>, withheld: &Option<String>| {
        let word = match (withheld, verdict) {
            (Some(_), _) => "withheld",
            (None, Some(verdict)) => verdict,
            (None, None) => "without a verdict",
        };
        *verdicts.entry(word.to_owned()).or_default() += 1;
    };
    for run in &speaking {
        for ratio in &run.record.ratios {
            count(&ratio.verdict, &ratio.withheld);
        }
        for ratio in run.record.cells.iter().flatten().flat_map(|it| &it.ratios) {
            count(&ratio.verdict, &ratio.withheld);
        }
    }
    let cpus: BTreeSet<&str> = speaking
        .iter()
        .map(|run| run.record.machine.cpu.as_str())
        .collect();
    let classes: BTreeSet<&str> = speaking
        .iter()
        .map(|run| run.record.machine.class.as_str())
        .collect();
    let outdated = speaking.iter().filter(|run| run.is_outdated()).count();
    json!({
        "speaking": speaking.len(), "silent": runs.len() - speaking.len(), "outdated": outdated,
        "oldest": dates.first(), "newest": dates.last(), "machines": classes, "processors": cpus,
        "verdicts": verdicts.iter().map(|(word, n)| json!({ "word": word, "count": n })).collect::<Vec<_>>(),
        "ratios": verdicts.values().sum::<u64>(),
    })
}
