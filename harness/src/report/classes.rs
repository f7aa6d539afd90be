//! Claim classes: the groups of envelopes as pages show them, and the rule that no ratio of a group stands alone.
//!
//! A group names the envelopes that were made for us to lose or tie (`workloads::envelope::about`). Once any other run of the
//! group speaks, each of those must have one that speaks too, and a page that links the one must link the others. Not here:
//! which run speaks (`evidence`), or numbers quoted without a link to their run, which no page of ours has.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use workloads::envelope::about::{About, Group};

use super::error::ReportError;
use super::evidence::{Anchored, speaker};

/// Refuses runs that speak while something their group loses does not.
pub(super) fn require(about: &About, runs: &[Anchored]) -> Result<(), ReportError> {
    for group in about.groups() {
        let Some(quoted) = quoted(about, group, runs).next() else {
            continue;
        };
        for name in &group.losing {
            losing_cell(runs, name).map_err(|why| ReportError::Unbalanced {
                group: group.id.clone(),
                title: group.title.clone(),
                quoted: quoted.directory(),
                losing: name.clone(),
                why,
            })?;
        }
    }
    Ok(())
}

/// Refuses a page that links a run of a group and not what the group loses.
pub(super) fn hold(
    about: &About,
    runs: &[Anchored],
    page: &str,
    text: &str,
) -> Result<(), ReportError> {
    for group in about.groups() {
        let linked = |run: &Anchored| text.contains(&format!("({})", run.directory()));
        let Some(quoted) = quoted(about, group, runs).find(|run| linked(run)) else {
            continue;
        };
        let shown = |name: &&String| speaker(runs, name).is_some_and(linked);
        if let Some(losing) = group.losing.iter().find(|name| !shown(name)) {
            return Err(ReportError::OneSided {
                page: page.to_owned(),
                group: group.id.clone(),
                quoted: quoted.directory(),
                losing: losing.clone(),
            });
        }
    }
    Ok(())
}

/// The runs that must stand where runs of `envelopes` do, each with its group: what the groups of those lose.
pub(super) fn losing_runs<'a>(
    about: &'a About,
    runs: &'a [Anchored],
    envelopes: &BTreeSet<&str>,
) -> Vec<(&'a Group, &'a Anchored)> {
    let groups = about.groups().iter().filter(|group| {
        let mut of_group = envelopes.iter().filter_map(|name| about.of(name));
        of_group.any(|(its, _)| its.id == group.id)
    });
    let losing = groups.flat_map(|group| group.losing.iter().map(move |name| (group, name)));
    losing
        .filter_map(|(group, name)| Some((group, speaker(runs, name)?)))
        .collect()
}

/// What templates see as `classes`: every group with `runs`, those that speak, the losing ones first and marked so; `outdated`
/// are those whose envelope asks something else by now.
/// `view` says how templates see a run.
pub(super) fn context(
    about: &About,
    runs: &[Anchored],
    view: impl Fn(&Anchored) -> Value,
) -> Vec<Value> {
    let classes = about.groups().iter().map(|group| {
        let mut shown: Vec<(bool, Value)> = speaking(about, group, runs)
            .map(|run| {
                let losing = is_losing(group, run);
                let mut view = view(run);
                view["losing"] = losing.into();
                view["outdated"] = run.is_outdated().into();
                (losing, view)
            })
            .collect();
        shown.sort_by_key(|(losing, _)| !losing);
        let shown: Vec<Value> = shown.into_iter().map(|(_, view)| view).collect();
        json!({
            "id": group.id, "title": group.title, "sentence": group.sentence, "losing": group.losing, "runs": shown,
        })
    });
    classes.collect()
}

/// Runs of the group that speak.
fn speaking<'a>(
    about: &'a About,
    group: &'a Group,
    runs: &'a [Anchored],
) -> impl Iterator<Item = &'a Anchored> {
    let of_group = |run: &Anchored| about.of(&run.record.envelope).map(|(its, _)| &its.id);
    runs.iter()
        .filter(move |run| run.silent.is_none() && of_group(run) == Some(&group.id))
}

/// Those that something has to stand beside.
fn quoted<'a>(
    about: &'a About,
    group: &'a Group,
    runs: &'a [Anchored],
) -> impl Iterator<Item = &'a Anchored> {
    speaking(about, group, runs).filter(|run| !is_losing(group, run))
}

fn is_losing(group: &Group, run: &Anchored) -> bool {
    group.losing.contains(&run.record.envelope)
}

/// Finds a run of a losing envelope that speaks and has something to say, or says why there is none.
fn losing_cell(runs: &[Anchored], envelope: &str) -> Result<(), String> {
    if let Some(run) = speaker(runs, envelope) {
        if has_ratio(run) {
            return Ok(());
        }
        let why = "no ratio of `fused` over an arm that is no floor, or all are withheld";
        return Err(format!(": {} has {why}", run.directory()));
    }
    let silent = runs.iter().filter(|run| run.record.envelope == envelope);
    let mut why = silent.filter_map(|run| {
        let reason = run.silent.as_ref()?;
        Some(format!(": {} is silent, {reason}", run.directory()))
    });
    Err(why.next_back().unwrap_or_default())
}

/// Whether the run shows how this engine did against anything in use.
fn has_ratio(run: &Anchored) -> bool {
    let mut sessions = run.record.ratios.iter();
    let mut cells = run.record.cells.iter().flatten().flat_map(|it| &it.ratios);
    sessions.any(|it| it.arm == "fused" && it.label.is_none() && it.withheld.is_none())
        || cells.any(|it| it.withheld.is_none())
}
