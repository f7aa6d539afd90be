//! What became of figures that a newer run replaced: what they were, what they are, and what changed in between.
//!
//! Reasons are read from the two records, none is typed in. Not here: which run speaks (`evidence`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::evidence::Anchored;

/// Ratios further apart than this, either way, are named one by one.
const MOVED: f64 = 1.05;

/// A ratio of one run.
struct Figure {
    name: String,
    value: Option<f64>,
    verdict: String,
}

/// Of every run that a newer one replaced: itself, its successor, why the two differ, and the figures that moved.
pub(super) fn context(runs: &[Anchored]) -> Vec<Value> {
    let found = runs.iter().filter_map(|old| {
        let newer = old.replaced_by.as_ref()?;
        let new = runs.iter().find(|run| run.run == *newer)?;
        let (before, after) = (figures(old), figures(new));
        let moved: Vec<Value> = before
            .iter()
            .filter_map(|then| {
                let now = after.iter().find(|it| it.name == then.name);
                moved(then, now)
            })
            .collect();
        Some(json!({
            "run": old.run, "directory": old.directory(), "date": old.date(),
            "newer": new.run, "newer_directory": new.directory(),
            "why": reasons(old, new).join("; "), "moved": moved, "figures": before.len(),
        }))
    });
    found.collect()
}

/// The wall ratios of our last arm, and the speed ratios of cells.
fn figures(run: &Anchored) -> Vec<Figure> {
    let verdict = |verdict: &Option<String>, withheld: &Option<String>| {
        let said = withheld.as_ref().map(|_| "withheld".to_owned());
        said.or_else(|| verdict.clone()).unwrap_or_default()
    };
    let ratios = run.record.ratios.iter().filter(|it| it.arm == "fused");
    let ratios = ratios.map(|it| Figure {
        name: format!("`{}` over `{}`, wall", it.arm, it.denominator),
        value: it.wall.filter(|_| it.withheld.is_none()),
        verdict: verdict(&it.verdict, &it.withheld),
    });
    let cells = run.record.cells.iter().flatten();
    let cells = cells.flat_map(|cell| {
        cell.ratios.iter().map(|it| Figure {
            name: format!(
                "{}, `{}` over `{}`",
                cell.name,
                it.arm,
                engine(&it.denominator)
            ),
            value: it.speed.filter(|_| it.withheld.is_none()),
            verdict: verdict(&it.verdict, &it.withheld),
        })
    });
    ratios.chain(cells).collect()
}

/// Which way of another engine was the faster may change; it is the same ratio.
fn engine(denominator: &str) -> &str {
    denominator.split(':').next().unwrap_or(denominator)
}

/// The figure then and now; `None` where it says the same.
fn moved(then: &Figure, now: Option<&Figure>) -> Option<Value> {
    let Some(now) = now else {
        return Some(
            json!({ "name": then.name, "then": then.value, "verdict_then": then.verdict,
            "now": null, "verdict_now": "not asked again" }),
        );
    };
    let far = match (then.value, now.value) {
        (Some(a), Some(b)) => a.max(b) > a.min(b) * MOVED,
        (a, b) => a.is_some() != b.is_some(),
    };
    (far || then.verdict != now.verdict).then(|| {
        json!({ "name": then.name, "then": then.value, "verdict_then": then.verdict,
            "now": now.value, "verdict_now": now.verdict })
    })
}

/// In what the two runs differ, as far as their records tell.
fn reasons(old: &Anchored, new: &Anchored) -> Vec<String> {
    let mut reasons = Vec::new();
    let (before, after) = (&old.record, &new.record);
    if before.machine.cpu != after.machine.cpu {
        let words = format!(
            "another processor ({}, then {})",
            before.machine.cpu, after.machine.cpu
        );
        reasons.push(words);
    }
    for (part, what) in [("workload", "another question"), ("run", "other settings")] {
        let changed = changed(&old.declared[part], &new.declared[part]);
        if !changed.is_empty() {
            reasons.push(format!("{what} ({})", changed.join(", ")));
        }
    }
    if before.effective.kernels != after.effective.kernels {
        reasons.push(format!(
            "kernels {}, then {}",
            before.effective.kernels, after.effective.kernels
        ));
    }
    let trees = |run: &Anchored| run.record.build.trees.clone().unwrap_or_default();
    let (of_old, of_new) = (trees(old), trees(new));
    let sources = of_new
        .iter()
        .filter(|(name, tree)| of_old.get(*name) != Some(tree));
    let sources: Vec<String> = sources.map(|(name, _)| format!("`{name}`")).collect();
    if !sources.is_empty() {
        reasons.push(format!("source changed in {}", sources.join(", ")));
    }
    if reasons.is_empty() {
        reasons.push("the same again".to_owned());
    }
    reasons
}

/// The fields that are not equal.
fn changed(old: &Value, new: &Value) -> Vec<String> {
    let keys = |value: &Value| -> BTreeSet<String> {
        let fields = value.as_object().into_iter().flatten();
        fields.map(|(key, _)| key.clone()).collect()
    };
    let all: BTreeSet<String> = keys(old).union(&keys(new)).cloned().collect();
    let changed = all.into_iter().filter(|key| old[key] != new[key]);
    changed.map(|key| format!("`{key}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: Option<f64>, verdict: &str) -> Figure {
        Figure {
            name: "x".to_owned(),
            value,
            verdict: verdict.to_owned(),
        }
    }

    #[test]
    fn a_figure_is_named_when_its_value_or_its_verdict_moved_or_it_is_gone() {
        let then = figure(Some(2.0), "FASTER");
        assert!(moved(&then, Some(&figure(Some(2.05), "FASTER"))).is_none());
        assert!(moved(&then, Some(&figure(Some(2.2), "FASTER"))).is_some());
        assert!(moved(&then, Some(&figure(Some(1.8), "FASTER"))).is_some());
        assert!(moved(&then, Some(&figure(Some(2.0), "INCONCLUSIVE"))).is_some());
        assert!(moved(&then, Some(&figure(None, "withheld"))).is_some());
        let gone = moved(&then, None).unwrap();
        assert_eq!(gone["verdict_now"], "not asked again");
    }

    #[test]
    fn fields_that_changed_are_named_whichever_side_has_them() {
        let (old, new) = (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3, "c": 4}));
        assert_eq!(changed(&old, &new), ["`b`", "`c`"]);
        assert!(changed(&old, &old).is_empty());
    }
}
