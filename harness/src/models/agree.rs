//! `model agree`: our logits beside those of another implementation, for the same ids.
//!
//! The other's are read from safetensors files, one for each prompt. Not here: making them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use engine::Engine;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use workloads::trace::sha256_hex;

use super::generate::{options, refused};
use super::{Located, locate};
use crate::cli::AgreeArguments;
use crate::error::Error;
use crate::files;
use crate::table::{Table, grouped};
use crate::world::World;

/// The tag of the document.
pub const SCHEMA: &str = "fak.agreement/1";

/// How near a model of ours is to another implementation of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// [`SCHEMA`].
    pub schema: String,
    /// The model's name.
    pub model: String,
    /// Digest of its file, where it has one.
    pub model_sha256: Option<String>,
    /// The engine's mode.
    pub mode: String,
    /// Type of cached keys and values; none where the mode chose it.
    pub kv_dtype: Option<String>,
    /// Who the others are.
    pub reference: String,
    /// Each prompt.
    pub prompts: Vec<PromptAgreement>,
}

/// The same of one prompt, over those positions of which the reference has all logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptAgreement {
    /// The file's name without its ending.
    pub name: String,
    /// The file's digest.
    pub sha256: String,
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Positions compared.
    pub positions: u64,
    /// Mean of the sums of p (ln p - ln q) over the vocabulary, p the reference's distribution and q ours; in nats.
    pub mean_kld_nats: f64,
    /// Greatest difference of two logits.
    pub worst_logit: f64,
    /// Least cosine between the logits of a position.
    pub cosine_min: f64,
    /// Positions at which the best token is the same.
    pub top1_equal: u64,
}

/// One prompt as the reference has it.
struct Reference {
    name: String,
    sha256: String,
    ids: Vec<u32>,
    /// `[rows][vocab]`, those of the last positions.
    logits: Vec<f32>,
    vocab: usize,
}

/// Compares and shows.
pub fn agree(arguments: &AgreeArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let located = locate(&arguments.reference, world)?;
    let files = prompt_files(&arguments.with, world)?;
    let mut prompts = Vec::new();
    for file in &files {
        for reference in Reference::all(file)? {
            let tokens = reference.ids.len();
            world.say(&format!("{}: {tokens} tokens", reference.name));
            prompts.push(compare(&located, &reference, arguments, world)?);
        }
    }
    let found = Agreement {
        schema: SCHEMA.to_owned(),
        model: located.name.clone(),
        model_sha256: located.sha256.clone(),
        mode: arguments.engine.mode.clone(),
        kv_dtype: arguments.engine.kv.clone(),
        reference: arguments.by.clone(),
        prompts,
    };
    let document = serde_json::to_string_pretty(&found)
        .map_err(|error| Error::Usage(error.to_string()))?
        + "\n";
    if let Some(file) = &arguments.out {
        files::write_atomically(&world.working_directory.join(file), document.as_bytes())?;
    }
    if arguments.json {
        write!(out, "{document}")?;
    } else {
        write!(out, "{}", words(&found))?;
    }
    Ok(0)
}

/// The files of a directory, or the one file, in the order of their names.
fn prompt_files(path: &Path, world: &World) -> Result<Vec<PathBuf>, Error> {
    let path = world.working_directory.join(path);
    if path.is_file() {
        return Ok(vec![path]);
    }
    let entries = fs::read_dir(&path).map_err(|error| {
        let shown = path.display();
        Error::Usage(format!(
            "--with {shown}: {error}; give a safetensors file or a directory of them"
        ))
    })?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "safetensors"))
        .collect();
    found.sort();
    if found.is_empty() {
        let usage = format!(
            "--with {}: there is no safetensors file in it",
            path.display()
        );
        return Err(Error::Usage(usage));
    }
    Ok(found)
}

impl Reference {
    /// Reads every prompt of a file: `input_ids` [T] and `logits` [T, vocabulary], or where those are missing `last_logits`
    /// [vocabulary]; several prompts have a word and a dot before these names.
    fn all(path: &Path) -> Result<Vec<Self>, Error> {
        let bytes = fs::read(path).map_err(|source| Error::io("cannot read", path, source))?;
        let fail = |what: String| Error::Usage(format!("{}: {what}", path.display()));
        let tensors = SafeTensors::deserialize(&bytes).map_err(|error| fail(error.to_string()))?;
        let mut names = tensors.names();
        names.sort_unstable();
        let prefixes = names
            .iter()
            .filter_map(|name| name.strip_suffix("input_ids"));
        let prefixes: Vec<&str> = prefixes.collect();
        if prefixes.is_empty() {
            return Err(fail("input_ids: no such tensor".to_owned()));
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let sha256 = sha256_hex(&bytes);
        let read = |prefix: &&str| {
            let (ids, logits, vocab) = prompt(&tensors, prefix).map_err(fail)?;
            let name = match prefix.trim_end_matches('.') {
                "" => stem.clone().into_owned(),
                word => format!("{stem}.{word}"),
            };
            Ok(Self {
                name,
                sha256: sha256.clone(),
                ids,
                logits,
                vocab,
            })
        };
        prefixes.iter().map(read).collect()
    }
}

/// Ids, logits and the size of the vocabulary.
fn prompt(tensors: &SafeTensors<'_>, prefix: &str) -> Result<(Vec<u32>, Vec<f32>, usize), String> {
    let view = |name: &str| {
        let name = format!("{prefix}{name}");
        let found = tensors.tensor(&name);
        found.map_err(|error| format!("{name}: {error}"))
    };
    let ids = view("input_ids")?;
    if ids.dtype() != Dtype::I64 {
        return Err(format!("{prefix}input_ids are {:?}, not I64", ids.dtype()));
    }
    let ids: Option<Vec<u32>> = ids
        .data()
        .chunks_exact(8)
        .map(|it| u32::try_from(i64::from_le_bytes(it.try_into().ok()?)).ok())
        .collect();
    let ids = ids.filter(|ids| !ids.is_empty());
    let ids = ids.ok_or_else(|| format!("{prefix}input_ids are no token ids"))?;
    let logits = view("logits").or_else(|_| view("last_logits"))?;
    let vocab = *logits.shape().last().unwrap_or(&0);
    let rows = logits.shape().iter().rev().skip(1).product::<usize>();
    if logits.dtype() != Dtype::F32 || vocab == 0 || rows > ids.len() {
        let shape = logits.shape();
        return Err(format!(
            "{prefix}logits are {:?} of shape {shape:?}",
            logits.dtype()
        ));
    }
    let numbers = logits.data().chunks_exact(4);
    let logits = numbers.map(|it| f32::from_le_bytes(it.try_into().unwrap_or_default()));
    Ok((ids, logits.collect(), vocab))
}

fn compare(
    located: &Located,
    reference: &Reference,
    arguments: &AgreeArguments,
    world: &World,
) -> Result<PromptAgreement, Error> {
    let model = located.open()?;
    if model.vocab() != reference.vocab {
        return Err(Error::Usage(format!(
            "{}: logits of {} tokens, and {} has {}",
            reference.name,
            reference.vocab,
            located.name,
            model.vocab()
        )));
    }
    let options = options(&arguments.engine, reference.ids.len(), world)?;
    let mut engine = Engine::new(model, &options).map_err(|error| refused(error, None))?;
    let rows = reference.logits.len() / reference.vocab;
    let ours = engine
        .logits(&reference.ids, rows > 1)
        .map_err(|error| refused(error, None))?;
    let skipped = ours.len().saturating_sub(reference.logits.len());
    Ok(of_rows(reference, &ours[skipped..]))
}

/// Row by row, in f64; written to so many digits that another machine writes the same.
fn of_rows(reference: &Reference, ours: &[f32]) -> PromptAgreement {
    let theirs = reference.logits.chunks_exact(reference.vocab);
    let rows: Vec<(&[f32], &[f32])> = theirs.zip(ours.chunks_exact(reference.vocab)).collect();
    let sum: f64 = rows.iter().map(|(p, q)| divergence(p, q)).sum();
    let worst = rows.iter().flat_map(|(p, q)| p.iter().zip(*q));
    let worst = worst.map(|(p, q)| (f64::from(*p) - f64::from(*q)).abs());
    let cosine_min = rows.iter().map(|(p, q)| cosine(p, q)).fold(1.0, f64::min);
    let equal = rows.iter().filter(|(p, q)| best(p) == best(q));
    PromptAgreement {
        name: reference.name.clone(),
        sha256: reference.sha256.clone(),
        tokens: reference.ids.len() as u64,
        positions: rows.len() as u64,
        mean_kld_nats: digits(sum / rows.len().max(1) as f64),
        worst_logit: digits(worst.fold(0.0, f64::max)),
        cosine_min: (cosine_min * 1e9).round() / 1e9,
        top1_equal: equal.count() as u64,
    }
}

/// Three significant digits.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Kullback-Leibler divergence of two distributions given by their logits, in nats; not below zero by rounding.
fn divergence(reference: &[f32], ours: &[f32]) -> f64 {
    let (p, q) = (log_softmax(reference), log_softmax(ours));
    let terms = p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q));
    terms.sum::<f64>().max(0.0)
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let most = f64::from(most);
    let sum: f64 = logits.iter().map(|it| (f64::from(*it) - most).exp()).sum();
    let all = most + sum.ln();
    logits.iter().map(|it| f64::from(*it) - all).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The first of the greatest logits.
fn best(logits: &[f32]) -> Option<usize> {
    let order = |a: &(usize, &f32), b: &(usize, &f32)| a.1.total_cmp(b.1).then(b.0.cmp(&a.0));
    logits.iter().enumerate().max_by(order).map(|(at, _)| at)
}

fn words(found: &Agreement) -> String {
    let header = [
        "prompt",
        "tokens",
        "positions",
        "mean KL, nats",
        "worst logit",
        "least cosine",
        "best token equal",
    ];
    let mut table = Table::new(&header);
    for it in &found.prompts {
        table.row([
            it.name.clone(),
            grouped(it.tokens),
            grouped(it.positions),
            format!("{:.2e}", it.mean_kld_nats),
            format!("{:.2e}", it.worst_logit),
            format!("{:.9}", it.cosine_min),
            format!("{} of {}", it.top1_equal, it.positions),
        ]);
    }
    format!(
        "{} in mode {} beside {}\n\n{}\n\
         KL: how far our next-token distribution is from the reference's. Positions: those of which the reference has all logits.\n",
        found.model,
        found.mode,
        found.reference,
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(logits: &[f32], vocab: usize) -> Reference {
        Reference {
            name: "p".to_owned(),
            sha256: String::new(),
            ids: vec![1; logits.len() / vocab],
            logits: logits.to_vec(),
            vocab,
        }
    }

    #[test]
    fn equal_logits_agree_and_a_known_divergence_is_found() {
        let same = of_rows(&reference(&[0.5, -1.0, 2.0], 3), &[0.5, -1.0, 2.0]);
        assert_eq!(
            (same.mean_kld_nats, same.worst_logit, same.cosine_min),
            (0.0, 0.0, 1.0)
        );
        assert_eq!((same.positions, same.top1_equal), (1, 1));
        // p = (1/2, 1/2), q = (3/4, 1/4): (ln(2/3) + ln 2) / 2.
        let found = of_rows(&reference(&[0.0, 0.0], 2), &[3.0_f32.ln(), 0.0]);
        let expected = f64::midpoint((2.0_f64 / 3.0).ln(), 2.0_f64.ln());
        assert_eq!(found.mean_kld_nats.to_bits(), digits(expected).to_bits());
        assert_eq!(found.top1_equal, 1); // of equal logits the first is the best
    }

    #[test]
    fn a_shifted_row_has_the_same_distribution_and_another_worst_logit() {
        let found = of_rows(
            &reference(&[1.0, 2.0, 4.0, 3.0], 2),
            &[11.0, 12.0, 4.0, 3.0],
        );
        assert!(found.mean_kld_nats < 1e-12);
        assert_eq!(
            (found.worst_logit, found.positions, found.top1_equal),
            (10.0, 2, 2)
        );
    }

    #[test]
    fn numbers_are_written_to_three_digits() {
        for (value, written) in [(0.0, 0.0), (1.234_56e-9, 1.23e-9), (98_765.0, 98_800.0)] {
            assert_eq!(digits(value).to_bits(), f64::to_bits(written));
        }
    }
}
