//! How `list` looks: an overview by group, and one envelope whole.
//!
//! Not here: what is known of an envelope (`list`) and what is said of it (`workloads::envelope::about`).

use std::fmt::Write as _;

use workloads::envelope::about::{About, Group};

use super::Listed;
use crate::table::{COLUMNS, counted, folded, rough_duration};
use crate::world::World;

/// Column at which the words of a labelled line begin.
const LABEL: usize = 15;

/// Every group that has any of them, each with its envelopes.
pub(super) fn overview(listed: &[Listed], about: &About, world: &World) -> String {
    let mut text = String::new();
    for group in about.groups() {
        let of_group = |it: &&Listed| about.of(&it.name).is_some_and(|(its, _)| its == group);
        let members: Vec<&Listed> = listed.iter().filter(of_group).collect();
        if members.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} ({})", group.title, group.id);
        indent(&mut text, 0, &group.sentence);
        text.push('\n');
        for it in members {
            let lose = if is_losing(it, group) {
                " [made for us to lose]"
            } else {
                ""
            };
            let _ = writeln!(text, "  {}{lose}", it.name);
            indent(&mut text, 6, &it.question);
            let _ = match model(it) {
                Some(model) => writeln!(text, "      model {model}; {}", takes(it)),
                None => writeln!(text, "      {}", takes(it)),
            };
        }
        text.push('\n');
    }
    if text.contains("[made for us to lose]") {
        let words = "[made for us to lose]: it takes away what the others of its group live on, and no page quotes a \
                     ratio of the group without it.";
        indent(&mut text, 0, words);
        text.push('\n');
    }
    let command = &world.command;
    let known = listed.first().map_or("NAME", |it| it.name.as_str());
    let _ = writeln!(text, "all about one:  {command} list {known}");
    let _ = writeln!(text, "run one:        {command} run {known}");
    let _ = writeln!(text, "write your own: {command} new NAME");
    text
}

/// All that is known and said of one envelope.
pub(super) fn one(it: &Listed, about: &About, world: &World) -> String {
    let mut text = format!("{}\n", it.name);
    indent(&mut text, 0, &it.question);
    text.push('\n');
    if let Some((group, paragraph)) = about.of(&it.name) {
        let mut class = format!("{} ({})", group.title, group.id);
        if is_losing(it, group) {
            class += ". Made for us to lose: no page quotes a ratio of the group without it";
        }
        labelled(&mut text, "group", &class);
        labelled(&mut text, "origin", &paragraph.origin);
        labelled(&mut text, "asks", &paragraph.asks);
        labelled(&mut text, "does not show", &paragraph.does_not_show);
        text.push('\n');
    }
    labelled(&mut text, "shape", &it.words);
    let mut arms = it.arms.join(", ");
    if let Some(model) = model(it) {
        let _ = write!(arms, "; {}", counted(it.reps, "repetition"));
        labelled(&mut text, "arms", &arms);
        labelled(&mut text, "model", &format!("{model}; mode {}", it.mode));
    } else {
        labelled(&mut text, "arms", &arms);
    }
    if let Some(file) = &it.dataset {
        labelled(
            &mut text,
            "data set",
            &format!("{file}, which is not ours to carry"),
        );
    }
    let mut time = takes(it);
    if let Some(estimate) = &it.estimate {
        let _ = write!(time, ", by {}", world.shown(&estimate.directory));
    }
    labelled(&mut text, "time", &time);
    text.push('\n');
    commands(&mut text, it, world);
    text
}

/// What to type, and what else if a program that is not ours is missing.
fn commands(text: &mut String, it: &Listed, world: &World) {
    let more = match (&it.model, &it.dataset) {
        (Some(_), _) if !it.model_present => " --pull",
        (_, Some(_)) => " --dataset FILE",
        _ => "",
    };
    let run = format!("{} run {}{more}", world.command, it.name);
    let (others, ours): (Vec<&str>, Vec<&str>) = it
        .arms
        .iter()
        .map(String::as_str)
        .partition(|arm| arm.contains(':'));
    let program = others.first().and_then(|arm| arm.split(':').next());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "run it:        {run}");
    if let Some(program) = program {
        let arms: Vec<String> = ours.iter().map(|arm| format!(" --arm {arm}")).collect();
        let arms = arms.concat();
        let _ = writeln!(text, "ours alone:    {run}{arms}");
        let label = format!("{program}:");
        let doctor = format!("{} baseline doctor {program}", world.command);
        let _ = writeln!(text, "{label:LABEL$}{doctor}");
    }
}

fn is_losing(it: &Listed, group: &Group) -> bool {
    group.losing.contains(&it.name)
}

/// The model, and whether it is here; none where nothing is run.
fn model(it: &Listed) -> Option<String> {
    let here = if it.model_present {
        "here"
    } else {
        "not here, `run --pull` gets it"
    };
    let model = it.model.as_ref()?;
    Some(format!("{model} ({here})"))
}

fn takes(it: &Listed) -> String {
    if it.model.is_none() {
        return "counted in a second: nothing is run".to_owned();
    }
    it.estimate.as_ref().map_or_else(
        || "not timed here yet".to_owned(),
        |estimate| format!("takes about {}", rough_duration(estimate.total_ns)),
    )
}

/// Folded words, every line indented.
fn indent(text: &mut String, columns: usize, words: &str) {
    for line in folded(words, COLUMNS - columns) {
        let _ = writeln!(text, "{:columns$}{line}", "");
    }
}

/// Folded words beside their label.
fn labelled(text: &mut String, label: &str, words: &str) {
    for (number, line) in folded(words, COLUMNS - LABEL).into_iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        let _ = writeln!(text, "{label:LABEL$}{line}");
    }
}
