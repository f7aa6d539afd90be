//! What a client may ask of sampling, with the range of every parameter.
//!
//! Not here: what the parameters do (`filter`), or stop strings, which need text (`stop`).

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::error::{Error, Result};

/// How the next token is chosen; the default is greedy.
///
/// Applied to the raw logits in this order: bias, repetition penalty, frequency penalty, presence penalty; then, unless
/// greedy, temperature, top-k, top-p, min-p, and a draw from the softmax of what is left.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 takes the likeliest token, ties to the lower id.
    pub temperature: f32,
    /// Keeps the `k` likeliest tokens and whatever ties with the last of them.
    pub top_k: Option<usize>,
    /// Keeps the likeliest tokens that hold this much probability, above 0; 1 keeps all.
    pub top_p: f32,
    /// Drops tokens below this share of the greatest probability, 0 to 1.
    pub min_p: f32,
    /// For tokens of prompt and output: a positive logit is divided by it, others are multiplied; above 0, 1 is none.
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of every token of the output.
    pub presence_penalty: f32,
    /// Subtracted from a logit for every occurrence of its token in the output.
    pub frequency_penalty: f32,
    /// Added to the logits of these ids; minus infinity forbids one.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Key of the generator, with the position of the token in the text.
    pub seed: u64,
    /// Report log-probabilities of the chosen token and this many of the likeliest.
    pub logprobs: Option<usize>,
    /// Ids that end the output, themselves included in it.
    pub stop_ids: Vec<u32>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            seed: 0,
            logprobs: None,
            stop_ids: Vec::new(),
        }
    }
}

impl SamplingParams {
    /// Whether the likeliest token is taken and nothing is drawn.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether a token that occurred before may have another score for it.
    pub(super) fn penalises(&self) -> bool {
        let none = (1.0, 0.0, 0.0);
        (
            self.repetition_penalty,
            self.presence_penalty,
            self.frequency_penalty,
        ) != none
    }

    /// That every parameter is in its range for a vocabulary of `vocab` tokens.
    pub fn check(&self, vocab: usize) -> Result<()> {
        let in_range = |parameter, value: f32, fits: bool, range: &str| {
            if fits {
                Ok(())
            } else {
                refuse(parameter, value, range)
            }
        };
        let Self {
            temperature,
            top_p,
            min_p,
            repetition_penalty,
            ..
        } = *self;
        let (presence, frequency) = (self.presence_penalty, self.frequency_penalty);
        let temperature_fits = temperature >= 0.0 && temperature.is_finite();
        in_range(
            "temperature",
            temperature,
            temperature_fits,
            "0 or more and finite",
        )?;
        in_range(
            "top_p",
            top_p,
            top_p > 0.0 && top_p <= 1.0,
            "above 0 and at most 1",
        )?;
        in_range("min_p", min_p, (0.0..=1.0).contains(&min_p), "0 to 1")?;
        let repetition_fits = repetition_penalty > 0.0 && repetition_penalty.is_finite();
        in_range(
            "repetition_penalty",
            repetition_penalty,
            repetition_fits,
            "above 0 and finite",
        )?;
        in_range("presence_penalty", presence, presence.is_finite(), "finite")?;
        in_range(
            "frequency_penalty",
            frequency,
            frequency.is_finite(),
            "finite",
        )?;
        if self.top_k == Some(0) {
            return refuse("top_k", 0, "1 or more, or left out");
        }
        if let Some(count) = self.logprobs.filter(|count| *count > vocab) {
            return refuse(
                "logprobs",
                count,
                &format!("at most the vocabulary of {vocab}"),
            );
        }
        if let Some(id) = self.stop_ids.iter().find(|id| **id as usize >= vocab) {
            return refuse("stop id", id, &format!("below the vocabulary of {vocab}"));
        }
        self.check_bias(vocab)
    }

    fn check_bias(&self, vocab: usize) -> Result<()> {
        for (id, bias) in &self.logit_bias {
            if *id as usize >= vocab {
                return refuse(
                    "logit_bias id",
                    id,
                    &format!("below the vocabulary of {vocab}"),
                );
            }
            if bias.is_nan() || *bias == f32::INFINITY {
                let range = format!("finite or -inf (id {id})");
                return refuse("logit_bias", bias, &range);
            }
        }
        let forbidden = self
            .logit_bias
            .values()
            .filter(|bias| **bias == f32::NEG_INFINITY);
        match forbidden.count() {
            all if all == vocab => refuse("logit_bias", "-inf for every id", "finite for one id"),
            _ => Ok(()),
        }
    }
}

fn refuse<T>(parameter: &'static str, value: impl Display, range: &str) -> Result<T> {
    Err(Error::BadParameter {
        parameter,
        value: value.to_string(),
        range: range.to_owned(),
    })
}
