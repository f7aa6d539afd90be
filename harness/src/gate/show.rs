//! How a gate's outcome looks: plain text, one JSON document, JUnit XML, annotations of a GitHub workflow.
//!
//! Not here: any judgement.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;

use serde_json::json;

use super::differ::Difference;
use super::{Checked, Outcome};
use crate::compare::times::Times;
use crate::error::Error;
use crate::table::counted;
use crate::world::World;

/// Differences shown as text; JSON and JUnit have them all.
const SHOWN_MAX: usize = 20;

impl Difference {
    /// Where it is, in words.
    fn place(&self) -> String {
        let rep = match self.rep {
            0 => String::new(),
            rep => format!(", repetition {rep}"),
        };
        let request = self.request.as_ref();
        let request = request.map_or(String::new(), |request| format!(", {request}"));
        format!("{}{rep}{request}, {}", self.arm, self.field)
    }

    /// The whole of it, one line for each side.
    fn words(&self) -> String {
        let mut text = format!(
            "{}\n    expected  {}\n    got       {}\n",
            self.place(),
            self.expected,
            self.got
        );
        for (side, words) in [("expected", &self.expected_text), ("got", &self.got_text)] {
            if let Some(words) = words {
                let _ = writeln!(text, "    {side:<8}  says {words:?}"); // writing to a String cannot fail
            }
        }
        text
    }
}

pub(super) fn text(outcomes: &[Outcome], world: &World, out: &mut dyn Write) -> Result<(), Error> {
    for outcome in outcomes {
        match &outcome.result {
            Ok(checked) => one(checked, &outcome.typed, world, out)?,
            Err(error) => {
                let verdict = if error.exit_code() == 1 {
                    "FAILED"
                } else {
                    "NOT RUN"
                };
                writeln!(out, "gate {}: {verdict}\n  {error}\n", outcome.name())?;
            }
        }
    }
    Ok(())
}

/// What came of a gate, never kinder than its exit code.
fn verdict(checked: &Checked) -> String {
    let count = checked.differences.len();
    let differences = counted(count, "difference");
    let times = checked.timing.as_ref().map_or(0, Times::exit_code);
    let of_counts = match (checked.accepted, count) {
        _ if checked.first => "ACCEPTED as the first baseline".to_owned(),
        (true, 0) => "ACCEPTED, nothing changed".to_owned(),
        (true, _) => format!("ACCEPTED, {differences} from the baseline before"),
        (false, 0) if times == 1 => "FAILED".to_owned(),
        (false, 0) => "PASS".to_owned(),
        (false, _) => format!("FAILED, {differences}"),
    };
    let of_times = match times {
        0 => "",
        1 => "; an arm is SLOWER",
        _ => "; no verdict on the times",
    };
    of_counts + of_times
}

fn one(checked: &Checked, typed: &str, world: &World, out: &mut dyn Write) -> Result<(), Error> {
    let (count, against) = (checked.differences.len(), checked.baseline.display());
    writeln!(out, "gate {}: {}", checked.envelope, verdict(checked))?;
    writeln!(
        out,
        "  {} of {} held against {against}: tokens computed, found, carried, replayed and decoded, hit rates, \
         output ids, logit hashes",
        counted(checked.requests, "request"),
        counted(checked.arms.len(), "arm"),
    )?;
    writeln!(
        out,
        "  {} told to the gate itself, all noticed",
        counted(checked.controls_noticed, "lie")
    )?;
    for difference in checked.differences.iter().take(SHOWN_MAX) {
        write!(out, "  {}", difference.words())?;
    }
    if count > SHOWN_MAX {
        writeln!(out, "  and {} more; --json has them all", count - SHOWN_MAX)?;
    }
    if let Some(times) = &checked.timing {
        write!(out, "{}", times.render())?;
    }
    writeln!(out, "  evidence: {}", checked.dir.display())?;
    if count > 0 && !checked.accepted {
        writeln!(
            out,
            "  if the change is meant: {} gate {typed} --accept",
            world.command
        )?;
    }
    writeln!(out)?;
    Ok(())
}

pub(super) fn json(outcomes: &[Outcome], code: u8, out: &mut dyn Write) -> Result<(), Error> {
    let gates: Vec<_> = outcomes
        .iter()
        .map(|outcome| match &outcome.result {
            Ok(checked) => {
                json!({ "envelope": outcome.name(), "exit_code": outcome.exit_code(), "outcome": checked })
            }
            Err(error) => {
                json!({ "envelope": outcome.name(), "exit_code": outcome.exit_code(),
                        "error": error.to_string() })
            }
        })
        .collect();
    let document = json!({ "exit_code": code, "gates": gates });
    writeln!(out, "{document:#}")?;
    Ok(())
}

/// One suite per envelope, one case per arm, one for the negative controls, one for the times where they were asked for.
pub(super) fn junit(outcomes: &[Outcome]) -> String {
    let mut suites = String::new();
    for outcome in outcomes {
        let name = outcome.name();
        let cases = match &outcome.result {
            Ok(checked) => cases(checked),
            Err(error) => {
                let failed = error.exit_code() == 1;
                let kind = if failed { "failure" } else { "error" };
                vec![Case {
                    name: "run".to_owned(),
                    fault: Some((kind, error.to_string())),
                }]
            }
        };
        let count = |kind: &str| {
            let faults = cases.iter().filter_map(|case| case.fault.as_ref());
            faults.filter(|(fault, _)| *fault == kind).count()
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            suites,
            "  <testsuite name=\"gate {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            escaped(name),
            cases.len(),
            count("failure"),
            count("error"),
            count("skipped")
        );
        for case in &cases {
            let _ = writeln!(suites, "{}", case.xml(name));
        }
        suites.push_str("  </testsuite>\n");
    }
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{suites}</testsuites>\n")
}

struct Case {
    name: String,
    fault: Option<(&'static str, String)>,
}

impl Case {
    fn xml(&self, suite: &str) -> String {
        let head = format!(
            "    <testcase classname=\"gate.{}\" name=\"{}\"",
            escaped(suite),
            escaped(&self.name)
        );
        match &self.fault {
            None => format!("{head}/>"),
            Some((kind, text)) => format!(
                "{head}>\n      <{kind} message=\"{}\">{}</{kind}>\n    </testcase>",
                escaped(text.lines().next().unwrap_or_default()),
                escaped(text)
            ),
        }
    }
}

fn cases(checked: &Checked) -> Vec<Case> {
    let mut arms = checked.arms.clone();
    for difference in &checked.differences {
        if !arms.contains(&difference.arm) {
            arms.push(difference.arm.clone()); // one that did not run, or runs for the first time
        }
    }
    let mut cases: Vec<Case> = arms
        .into_iter()
        .map(|name| {
            let own = checked.differences.iter().filter(|it| it.arm == name);
            let words: String = own.map(Difference::words).collect();
            let failed = !words.is_empty() && !checked.accepted;
            Case {
                fault: failed.then_some(("failure", words)),
                name,
            }
        })
        .collect();
    cases.push(Case {
        name: "negative control".to_owned(),
        fault: None, // one that goes unnoticed is an error of the whole gate
    });
    if let Some(times) = &checked.timing {
        let fault = match times.exit_code() {
            0 => None,
            1 => Some(("failure", times.render())),
            _ => Some(("skipped", times.render())),
        };
        cases.push(Case {
            name: "times".to_owned(),
            fault,
        });
    }
    cases
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            // What XML cannot hold even escaped.
            letter if letter.is_control() && letter != '\t' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// `::error` commands, each at the line of the baseline it contradicts, and one on the times where they fail or judge
/// nothing.
pub(super) fn annotations(
    outcomes: &[Outcome],
    world: &World,
    out: &mut dyn Write,
) -> Result<(), Error> {
    for outcome in outcomes {
        let checked = match &outcome.result {
            Ok(checked) => checked,
            Err(error) => {
                let title = property(&format!("gate {}", outcome.name()));
                writeln!(
                    out,
                    "::error title={title}::{}",
                    message(&error.to_string())
                )?;
                continue;
            }
        };
        let file = checked.baseline.display().to_string();
        let baseline = fs::read_to_string(world.working_directory.join(&checked.baseline));
        let baseline = baseline.unwrap_or_default(); // a run directory has no lines to point at
        for difference in checked.differences.iter().filter(|_| !checked.accepted) {
            let line = line_of(&baseline, difference);
            writeln!(
                out,
                "::error file={},line={line},title={}::{}",
                property(&file),
                property(&format!("gate {}", checked.envelope)),
                message(difference.words().trim_end())
            )?;
        }
        if let Some(times) = &checked.timing {
            on_times(&checked.envelope, times, out)?;
        }
    }
    Ok(())
}

fn on_times(envelope: &str, times: &Times, out: &mut dyn Write) -> Result<(), Error> {
    let (level, words) = match times.exit_code() {
        0 => return Ok(()),
        1 => ("error", "an arm is slower"),
        _ => ("warning", "no verdict on the times"),
    };
    let title = property(&format!("gate {envelope}"));
    let text = message(&format!("{words}\n{}", times.render().trim_end()));
    writeln!(out, "::{level} title={title}::{text}")?;
    Ok(())
}

/// The line of the baseline that says otherwise, from 1: that of the request, else that of the arm.
fn line_of(baseline: &str, difference: &Difference) -> usize {
    let arm = format!("    {:?}: {{", difference.arm);
    let place = |from: usize, prefix: &str| {
        let mut lines = baseline.lines().enumerate().skip(from);
        lines.find_map(|(number, line)| line.starts_with(prefix).then_some(number))
    };
    let counts = place(0, &arm).unwrap_or(0);
    let is_answer = ["ids", "logits", "answer"]
        .iter()
        .any(|prefix| difference.field.starts_with(prefix));
    let found = match &difference.request {
        Some(request) if is_answer => place(0, &format!("    {request:?}: ")),
        Some(request) => place(counts, &format!("        {request:?}: ")),
        None => place(counts, "      \"counters\""),
    };
    found.unwrap_or(counts) + 1
}

fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::times::TimeRow;

    /// A gate in which nothing differed but, perhaps, the times.
    fn checked(verdict_on_times: &str, accepted: bool) -> Checked {
        let mut times = Times::withheld("");
        times.withheld = None;
        times.rows.push(TimeRow {
            arm: "fused".to_owned(),
            n: 5,
            ratio: Some(0.5),
            low: Some(0.4),
            high: Some(0.6),
            verdict: verdict_on_times.to_owned(),
            at_instrument_limit: false,
        });
        Checked {
            envelope: "smoke".to_owned(),
            baseline: "results/gate/smoke.json".into(),
            dir: "results/local/smoke/1".into(),
            arms: vec!["fused".to_owned()],
            requests: 1,
            differences: Vec::new(),
            controls_noticed: 6,
            accepted,
            first: false,
            timing: Some(times),
        }
    }

    #[test]
    fn a_gate_that_fails_by_its_times_never_says_pass() {
        for (times, accepted, code, words) in [
            ("PARITY", false, 0, "PASS"),
            ("SLOWER", false, 1, "FAILED; an arm is SLOWER"),
            ("INCONCLUSIVE", false, 3, "PASS; no verdict on the times"),
            (
                "SLOWER",
                true,
                1,
                "ACCEPTED, nothing changed; an arm is SLOWER",
            ),
        ] {
            let checked = checked(times, accepted);
            assert_eq!(checked.exit_code(), code, "{times}");
            assert_eq!(verdict(&checked), words);
        }
    }

    #[test]
    fn times_that_fail_or_judge_nothing_are_annotated() {
        for (verdict, start) in [
            ("PARITY", ""),
            ("SLOWER", "::error title=gate smoke::an arm is slower%0A"),
            (
                "INCONCLUSIVE",
                "::warning title=gate smoke::no verdict on the times%0A",
            ),
        ] {
            let mut shown = Vec::new();
            let times = checked(verdict, false).timing.unwrap();
            on_times("smoke", &times, &mut shown).unwrap();
            let shown = String::from_utf8(shown).unwrap();
            assert!(shown.starts_with(start), "{shown}");
            assert_eq!(shown.lines().count(), usize::from(!start.is_empty()));
        }
    }
}
