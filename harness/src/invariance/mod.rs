//! `harness invariance`: the same question on many paths, and whether the answer had the same bits on all.
//!
//! On a synthetic model the full product of batch, cache hit, chunk, threads, kernels and shared attention; on a real one
//! an array in which every pair of levels meets. Not here: whether the answer is right (the engine's golden tests).

mod covering;
mod factors;
mod subject;

use std::collections::BTreeMap;
use std::io::Write;

use engine::{KvType, Mode, Model};
use serde::Serialize;
use serde_json::json;
use workloads::trace::hex;

use crate::cli::InvarianceArguments;
use crate::error::Error;
use crate::models::locate;
use crate::table::{Table, rough_duration};
use crate::world::World;
use factors::{Factors, NAMES};
use subject::{Answer, Numerics, answer, prefilled};

/// Hashes of synthetic models, to be equal on every machine: model, then mode, with the KV type if it is not the mode's own.
const PINNED: &str = include_str!("pinned.toml");

/// One mode's outcome, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Outcome {
    mode: String,
    kv_dtype: &'static str,
    /// `full product` or `every pair`.
    array: &'static str,
    runs: usize,
    agreeing: usize,
    /// SHA-256 of the first run's answer, which every other must have.
    sha256: String,
    levels: Vec<Level>,
    first_difference: Option<String>,
    /// KV written by decoding gives the logits that prefill gives.
    decode_equals_prefill: bool,
    /// Whether `sha256` is the committed one; none where none is committed.
    equals_pinned: Option<bool>,
    equal: bool,
}

/// One level of one factor: its runs, and how many of them gave the common answer.
#[derive(Debug, Serialize)]
#[allow(clippy::struct_field_names)] // the names in the JSON document
struct Level {
    factor: &'static str,
    level: String,
    runs: usize,
    agreeing: usize,
}

/// Runs the combinations and says whether they agree: exit code 0 or 1.
pub fn invariance(
    arguments: &InvarianceArguments,
    world: &World,
    clock: &dyn Fn() -> u64,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let reference = arguments.model.as_str();
    let mut model = if Model::synthetic_names().contains(&reference) {
        Model::synthetic(reference)?
    } else {
        locate(reference, world)?.open()?
    };
    let full = arguments.full || (model.is_synthetic() && !arguments.pairs);
    let modes = match &arguments.mode {
        Some(mode) => vec![mode.parse().map_err(Error::Usage)?],
        None => vec![Mode::Exact, Mode::Fast],
    };
    let kv_type = arguments.kv.as_deref().map(str::parse::<KvType>);
    let kv_type = kv_type.transpose().map_err(Error::Usage)?;
    let mut outcomes = Vec::new();
    for mode in modes {
        let question = Question {
            reference,
            numerics: Numerics {
                mode,
                kv_type: kv_type.unwrap_or(mode.kv_type()),
            },
            full,
        };
        let (given_back, outcome) = question.ask(model, world, clock)?;
        model = given_back;
        if !arguments.json {
            write!(out, "{}", outcome.render(reference))?;
        }
        outcomes.push(outcome);
    }
    let equal = outcomes.iter().all(|outcome| outcome.equal);
    if arguments.json {
        let document = json!({ "model": reference, "sha256": model.sha256()?, "equal": equal, "modes": outcomes });
        writeln!(out, "{document:#}")?;
    }
    Ok(u8::from(!equal))
}

/// One mode of one model, about to be asked.
struct Question<'a> {
    reference: &'a str,
    numerics: Numerics,
    full: bool,
}

impl Question<'_> {
    fn runs(&self) -> (Factors, Vec<Vec<usize>>) {
        if self.full {
            let factors = Factors::all();
            let rows = covering::product(&factors.sizes());
            return (factors, rows);
        }
        let factors = Factors::fewer();
        let rows = covering::pairwise(&factors.sizes());
        (factors, rows)
    }

    fn ask(
        &self,
        model: Model,
        world: &World,
        clock: &dyn Fn() -> u64,
    ) -> Result<(Model, Outcome), Error> {
        let (factors, rows) = self.runs();
        let plainest = factors.at(&rows[0]);
        let start = clock();
        let (model, expected) = answer(model, self.numerics, &plainest)?;
        // The first run goes position by position on one thread, so few others take longer.
        let about = rough_duration((clock() - start).saturating_mul(rows.len() as u64));
        let (mut model, prefilled) = prefilled(model, self.numerics, &plainest, &expected.text)?;
        let (name, mode, runs) = (self.reference, self.numerics.mode, rows.len());
        world.say(&format!("{name}, {mode}: {runs} runs, about {about}"));
        let mut agreed = vec![true];
        for row in &rows[1..] {
            let (given_back, found) = answer(model, self.numerics, &factors.at(row))?;
            model = given_back;
            agreed.push(found.digest == expected.digest);
            if agreed.len().is_multiple_of(runs.div_ceil(4)) {
                world.say(&format!("{} of {runs} runs", agreed.len()));
            }
        }
        let outcome = self.outcome(&factors, &rows, &agreed, &expected, &prefilled)?;
        Ok((model, outcome))
    }

    fn outcome(
        &self,
        factors: &Factors,
        rows: &[Vec<usize>],
        agreed: &[bool],
        expected: &Answer,
        prefilled: &[f32],
    ) -> Result<Outcome, Error> {
        let agreeing = agreed.iter().filter(|agreed| **agreed).count();
        let differing = agreed.iter().position(|agreed| !agreed);
        let bits = |logits: &[f32]| logits.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        let decode_equals_prefill = bits(&expected.continued) == bits(prefilled);
        let sha256 = hex(&expected.digest);
        let equals_pinned = pinned(self.reference, self.numerics)?.map(|pinned| pinned == sha256);
        Ok(Outcome {
            mode: self.numerics.mode.to_string(),
            kv_dtype: self.numerics.kv_type.name(),
            array: if self.full {
                "full product"
            } else {
                "every pair"
            },
            runs: agreed.len(),
            agreeing,
            levels: levels(factors, rows, agreed),
            first_difference: differing.map(|row| factors.at(&rows[row]).to_string()),
            decode_equals_prefill,
            equal: differing.is_none() && decode_equals_prefill && equals_pinned != Some(false),
            equals_pinned,
            sha256,
        })
    }
}

fn levels(factors: &Factors, rows: &[Vec<usize>], agreed: &[bool]) -> Vec<Level> {
    let mut levels = Vec::new();
    for (column, (factor, labels)) in NAMES.into_iter().zip(factors.labels()).enumerate() {
        for (index, level) in labels.into_iter().enumerate() {
            let runs = rows
                .iter()
                .zip(agreed)
                .filter(|(row, _)| row[column] == index);
            let (runs, agreeing) = runs.fold((0, 0), |(runs, agreeing), (_, agreed)| {
                (runs + 1, agreeing + usize::from(*agreed))
            });
            levels.push(Level {
                factor,
                level,
                runs,
                agreeing,
            });
        }
    }
    levels
}

/// The committed hash of a synthetic model.
fn pinned(model: &str, Numerics { mode, kv_type }: Numerics) -> Result<Option<String>, Error> {
    let key = if kv_type == mode.kv_type() {
        mode.to_string()
    } else {
        format!("{mode}-{kv_type}")
    };
    let pinned: BTreeMap<String, BTreeMap<String, String>> =
        toml::from_str(PINNED).map_err(|error| Error::Broken(format!("pinned.toml: {error}")))?;
    Ok(pinned.get(model).and_then(|modes| modes.get(&key)).cloned())
}

impl Outcome {
    fn render(&self, model: &str) -> String {
        let mut table = Table::new(&["factor", "level", "runs", "agreeing"]).left(2);
        for Level {
            factor,
            level,
            runs,
            agreeing,
        } in &self.levels
        {
            table.row([
                (*factor).to_owned(),
                level.clone(),
                runs.to_string(),
                agreeing.to_string(),
            ]);
        }
        let Self {
            mode,
            kv_dtype,
            array,
            runs,
            agreeing,
            sha256,
            ..
        } = self;
        let pinned = match self.equals_pinned {
            Some(true) => "equals the pinned hash",
            Some(false) => "differs from the pinned hash",
            None => "no hash is pinned for this",
        };
        let decode = if self.decode_equals_prefill {
            "gives"
        } else {
            "does not give"
        };
        let verdict = match &self.first_difference {
            _ if self.equal => "EQUAL".to_owned(),
            Some(path) => format!("DIFFERENT, first at {path}"),
            None => "DIFFERENT".to_owned(),
        };
        format!(
            "{model}, {mode}, keys and values {kv_dtype}, {array}\n{}\nKV written by decoding {decode} the logits of prefill\n\
             {sha256}  {pinned}\n{verdict}: {agreeing} of {runs} runs agree\n\n",
            table.render()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(model: &str, agreed: &[bool], prefilled: &[f32]) -> Outcome {
        let factors = Factors::fewer();
        let rows = covering::pairwise(&factors.sizes());
        let expected = Answer {
            digest: [7; 32],
            text: Vec::new(),
            continued: vec![0.0],
        };
        let question = Question {
            reference: model,
            numerics: Numerics {
                mode: Mode::Exact,
                kv_type: KvType::F32,
            },
            full: false,
        };
        let rows = &rows[..agreed.len()];
        question
            .outcome(&factors, rows, agreed, &expected, prefilled)
            .unwrap()
    }

    #[test]
    fn one_run_that_differs_is_named_and_counted_at_its_levels() {
        let found = outcome("nameless", &[true, true, false, true], &[0.0]);
        assert!(!found.equal);
        assert_eq!((found.runs, found.agreeing), (4, 3));
        let path = found.first_difference.clone().unwrap();
        let missing: Vec<&Level> = found
            .levels
            .iter()
            .filter(|it| it.runs > it.agreeing)
            .collect();
        assert_eq!(missing.len(), NAMES.len());
        for level in missing {
            assert!(
                path.contains(&format!("{} {}", level.factor, level.level)),
                "{path}"
            );
        }
        assert!(
            found
                .render("nameless")
                .contains(&format!("DIFFERENT, first at {path}: 3 of 4"))
        );
    }

    #[test]
    fn other_bits_after_decoding_or_another_hash_than_the_pinned_one_is_a_failure() {
        assert!(outcome("nameless", &[true; 3], &[0.0]).equal);
        let decoded = outcome("nameless", &[true; 3], &[-0.0]);
        assert!(!decoded.equal && !decoded.decode_equals_prefill);
        let pinned = outcome("synthetic-tiny", &[true; 3], &[0.0]);
        assert!(!pinned.equal && pinned.equals_pinned == Some(false));
        assert!(
            pinned
                .render("synthetic-tiny")
                .contains("differs from the pinned hash")
        );
    }
}
