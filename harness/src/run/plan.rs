//! What a run will do: the envelope with the command line applied, and the order of the arms.
//!
//! Not here: doing it (`process`), or how long it takes (`estimate`).

use std::path::Path;

use workloads::cells::CellWorkload;
use workloads::counts::CountsEnvelope;
use workloads::envelope::{self, Declared, Overrides, ResolvedEnvelope, ResolvedOf, Workload};

use crate::cli::RunArguments;
use crate::error::Error;
use crate::files;
use crate::near::suggestion;
use crate::world::World;

/// An envelope ready to run, and the text it came from.
pub struct Plan<W> {
    /// envelope.toml, as given.
    pub text: String,
    /// envelope.json, as resolved.
    pub envelope: ResolvedOf<W>,
}

/// A plan of whichever kind.
pub enum Planned {
    /// Agents that take turns.
    Session(Plan<Workload>),
    /// Cells of engine work.
    Engine(Plan<CellWorkload>),
    /// What is counted and not run.
    Counts(Counting),
}

/// A counted envelope as written, and its text.
pub struct Counting {
    /// envelope.toml, as given.
    pub text: String,
    /// The same, read.
    pub envelope: CountsEnvelope,
}

/// Reads the envelope and resolves it under the command line.
pub fn plan(arguments: &RunArguments, world: &World) -> Result<Planned, Error> {
    let asked = &arguments.envelope;
    let text = text_of(asked, &world.working_directory)?;
    let refused = |source| Error::Envelope {
        file: asked.clone(),
        source,
    };
    let overrides = Overrides {
        arms: arguments.arms.clone(),
        reps: arguments.reps,
        model: arguments.model.clone(),
        threads: arguments.threads,
        kernels: arguments.kernels.clone(),
        mode: arguments.mode.clone(),
    };
    Ok(match Declared::parse(&text, asked).map_err(refused)? {
        Declared::Session(envelope) => {
            let resolved = envelope.resolve(&overrides, world.cores);
            let envelope = resolved.map_err(refused)?;
            Planned::Session(Plan { text, envelope })
        }
        Declared::Engine(envelope) => {
            let resolved = envelope.resolve(&overrides, world.cores);
            let envelope = resolved.map_err(refused)?;
            Planned::Engine(Plan { text, envelope })
        }
        Declared::Counts(envelope) => Planned::Counts(Counting { text, envelope }),
    })
}

/// The text of an embedded envelope or of a file.
fn text_of(asked: &str, working_directory: &Path) -> Result<String, Error> {
    if let Some((_, text)) = envelope::embedded().iter().find(|(name, _)| *name == asked) {
        return Ok((*text).to_owned());
    }
    let path = working_directory.join(asked);
    if path.is_file() {
        return files::read_text(&path);
    }
    let names: Vec<&str> = envelope::embedded().iter().map(|(name, _)| *name).collect();
    Err(Error::Usage(format!(
        "no envelope and no file is named `{asked}` ({}); `harness list` shows all, \
         `harness new NAME` starts a file of your own",
        suggestion(asked, names)
    )))
}

/// Every (arm, repetition) in the order they run. Odd repetitions go backwards, so that an arm is as
/// often early as late and a drifting machine favours none.
pub fn order(envelope: &ResolvedEnvelope) -> Vec<(&str, usize)> {
    let run = &envelope.run;
    let reps = |arm: &str| run.arm_reps.get(arm).copied().unwrap_or(run.reps);
    let longest = run.arms.iter().map(|arm| reps(arm)).max().unwrap_or(0);
    let mut order = Vec::new();
    for rep in 0..longest {
        let mut round: Vec<(&str, usize)> = run
            .arms
            .iter()
            .filter(|arm| rep < reps(arm))
            .map(|arm| (arm.as_str(), rep))
            .collect();
        if rep % 2 == 1 {
            round.reverse();
        }
        order.extend(round);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use workloads::envelope::Envelope;

    fn resolved(arms: &[&str], reps: usize) -> ResolvedEnvelope {
        let overrides = Overrides {
            arms: arms.iter().map(|&arm| arm.to_owned()).collect(),
            reps: Some(reps),
            ..Overrides::default()
        };
        Envelope::named("smoke")
            .unwrap()
            .resolve(&overrides, 1)
            .unwrap()
    }

    #[test]
    fn odd_repetitions_run_backwards() {
        let envelope = resolved(&["naive", "fused"], 3);
        let expected = [
            ("naive", 0),
            ("fused", 0),
            ("fused", 1),
            ("naive", 1),
            ("naive", 2),
            ("fused", 2),
        ];
        assert_eq!(order(&envelope), expected);
    }

    #[test]
    fn an_arm_with_fewer_repetitions_drops_out_of_later_rounds() {
        let mut envelope = resolved(&["naive", "fused"], 2);
        envelope.run.arm_reps.insert("naive".to_owned(), 1);
        assert_eq!(order(&envelope), [("naive", 0), ("fused", 0), ("fused", 1)]);
    }

    #[test]
    fn an_unknown_envelope_names_the_near_one() {
        let root = tempfile::tempdir().unwrap();
        let error = text_of("smok", root.path()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("did you mean smoke?"), "{error}");
    }
}
