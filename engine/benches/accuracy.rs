//! What each mode and type of cache costs in accuracy: perplexity of a text, and how far the next token's distribution is
//! from that of mode `exact` over f32.
//!
//! `cargo bench -p engine --bench accuracy -- MODEL.gguf TEXT [TOKENS]`, such as a model of `harness model list` and
//! ARCHITECTURE.md. The second half of the tokens counts, so that each has context. Without arguments it says so and ends.
//! Not here: speed (`kernels`).
#![allow(clippy::print_stdout, clippy::print_stderr)] // a bench says what it measured

use std::path::Path;
use std::process::ExitCode;

use engine::tensor::{KvType, Mode};
use engine::{Engine, EngineOptions, Model};

/// Tokens if none are asked for.
const TOKENS: usize = 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&String> = arguments.iter().filter(|it| *it != "--bench").collect();
    let [model, text, rest @ ..] = arguments.as_slice() else {
        println!(
            "accuracy: skipped, no model: cargo bench -p engine --bench accuracy -- MODEL.gguf TEXT [TOKENS]"
        );
        return ExitCode::SUCCESS;
    };
    let tokens = rest.first().map_or(Ok(TOKENS), |it| it.parse());
    let measured = tokens.map_err(|error| format!("TOKENS: {error}"));
    match measured.and_then(|tokens| measure(Path::new(model), Path::new(text), tokens)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("accuracy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(path: &Path, text: &Path, tokens: usize) -> Result<(), String> {
    let text =
        std::fs::read_to_string(text).map_err(|error| format!("{}: {error}", text.display()))?;
    let model = Model::open(path).map_err(|error| error.to_string())?;
    let tokenizer = model.tokenizer().ok_or("the model has no tokenizer")?;
    let ids = tokenizer
        .encode(&text, false)
        .map_err(|error| error.to_string())?;
    let ids = ids
        .get(..tokens)
        .ok_or(format!("the text has {} tokens, not {tokens}", ids.len()))?;
    println!("mode   cache  perplexity  KL, mean  KL, worst  same arg-max");
    let mut exact: Vec<f32> = Vec::new();
    for (mode, kv_type) in [
        (Mode::Exact, KvType::F32),
        (Mode::Exact, KvType::F16),
        (Mode::Exact, KvType::Q8_0),
        (Mode::Fast, KvType::F32),
        (Mode::Fast, KvType::F16),
        (Mode::Fast, KvType::Q8_0),
    ] {
        let options = EngineOptions {
            mode,
            kv_type: Some(kv_type),
            ..EngineOptions::default()
        };
        let model = Model::open(path).map_err(|error| error.to_string())?;
        let mut engine = Engine::new(model, &options).map_err(|error| error.to_string())?;
        let logits = engine
            .logits(ids, true)
            .map_err(|error| error.to_string())?;
        if exact.is_empty() {
            exact.clone_from(&logits);
        }
        let far = Distance::of(ids, &logits, &exact);
        println!(
            "{:<5}  {:<5}  {:>10.3}  {:>8.1e}  {:>9.1e}  {:>10.2} %",
            mode.to_string(),
            kv_type.name(),
            far.perplexity,
            far.mean,
            far.worst,
            far.same_percent
        );
    }
    Ok(())
}

/// How far logits are from exact ones over the second half of some ids.
struct Distance {
    perplexity: f64,
    /// Kullback-Leibler divergence from the exact distribution, nats.
    mean: f64,
    worst: f64,
    same_percent: f64,
}

impl Distance {
    fn of(ids: &[u32], logits: &[f32], exact: &[f32]) -> Self {
        let vocab = logits.len() / ids.len();
        let counted = ids.len() / 2..ids.len() - 1;
        let count = counted.len() as f64;
        let (mut surprise, mut sum, mut worst, mut same) = (0.0, 0.0, 0.0_f64, 0);
        for position in counted {
            let row = position * vocab..(position + 1) * vocab;
            let (found, exact) = (log_softmax(&logits[row.clone()]), log_softmax(&exact[row]));
            surprise -= found[ids[position + 1] as usize];
            let terms = exact.iter().zip(&found).map(|(p, q)| p.exp() * (p - q));
            let divergence = terms.sum::<f64>();
            sum += divergence;
            worst = worst.max(divergence);
            same += usize::from(greatest(&found) == greatest(&exact));
        }
        Self {
            perplexity: (surprise / count).exp(),
            mean: sum / count,
            worst,
            same_percent: 100.0 * same as f64 / count,
        }
    }
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - max).exp()).sum();
    let shift = f64::from(max) + sum.ln();
    logits.iter().map(|x| f64::from(*x) - shift).collect()
}

/// Index of the greatest, the first of equals.
fn greatest(values: &[f64]) -> usize {
    let better =
        |best: usize, (i, value): (usize, &f64)| if *value > values[best] { i } else { best };
    values.iter().enumerate().fold(0, better)
}
