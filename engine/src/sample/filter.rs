//! The steps from logits to probabilities, each as the vectors of `golden/sampling` define it.
//!
//! A score is a logit on its way; minus infinity means the token cannot be chosen. f64 holds whatever the steps make of
//! finite f32 numbers. Every cut is made in one total order, score descending then id ascending. Not here: the draw.

use std::collections::BTreeMap;

use super::SamplingParams;

/// Scores after bias and penalties: the part that moves the likeliest token.
pub fn shifted(
    params: &SamplingParams,
    prompt: &[u32],
    output: &[u32],
    logits: &[f32],
) -> Vec<f64> {
    // Adding zero turns -0 into 0, so that equal logits compare equal in a total order.
    let mut scores: Vec<f64> = logits.iter().map(|logit| f64::from(*logit) + 0.0).collect();
    for (id, bias) in &params.logit_bias {
        scores[*id as usize] += f64::from(*bias);
    }
    if params.penalises() {
        repetition_penalty(&mut scores, prompt, output, params.repetition_penalty);
        let (frequency, presence) = (params.frequency_penalty, params.presence_penalty);
        count_penalties(&mut scores, output, frequency, presence);
    }
    scores
}

/// Scores after temperature, top-k, top-p and min-p.
pub fn filtered(params: &SamplingParams, mut scores: Vec<f64>) -> Vec<f64> {
    temperature(&mut scores, params.temperature);
    top_k(&mut scores, params.top_k.unwrap_or(usize::MAX));
    top_p(&mut scores, params.top_p);
    min_p(&mut scores, params.min_p);
    scores
}

/// Every token of prompt or output once: `score / penalty` if positive, else `score * penalty`
/// (Keskar et al. 2019, with the sign rule of transformers).
pub fn repetition_penalty(scores: &mut [f64], prompt: &[u32], output: &[u32], penalty: f32) {
    for id in occurrences(prompt.iter().chain(output)).into_keys() {
        let score = &mut scores[id as usize];
        let penalty = f64::from(penalty);
        *score = if *score > 0.0 {
            *score / penalty
        } else {
            *score * penalty
        };
    }
}

/// `score - frequency * occurrences - presence` for tokens of the output; the prompt does not count.
pub fn count_penalties(scores: &mut [f64], output: &[u32], frequency: f32, presence: f32) {
    for (id, count) in occurrences(output) {
        scores[id as usize] -= f64::from(frequency) * f64::from(count) + f64::from(presence);
    }
}

fn occurrences<'a>(ids: impl IntoIterator<Item = &'a u32>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for id in ids {
        *counts.entry(*id).or_default() += 1;
    }
    counts
}

/// `score / temperature`; the temperature is above 0.
pub fn temperature(scores: &mut [f64], temperature: f32) {
    for score in scores {
        *score /= f64::from(temperature);
    }
}

/// Drops what lies below the `k`-th greatest score, so that its equals stay.
pub fn top_k(scores: &mut [f64], k: usize) {
    if k >= scores.len() {
        return;
    }
    let mut sorted = scores.to_vec();
    let (_, least, _) = sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    drop_where(scores, |score| score < *least);
}

/// Adds probabilities from the least likely up and drops tokens while the sum is at most `1 - p`; one always stays.
pub fn top_p(scores: &mut [f64], p: f32) {
    if p >= 1.0 {
        return;
    }
    let weights = weights(scores);
    let droppable = (1.0 - f64::from(p)) * weights.iter().sum::<f64>();
    // Weights under an equal share of what may be dropped fit into it together: only the others are worth sorting.
    let share = droppable / weights.len() as f64;
    let (small, mut rest): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|id| weights[*id] < share);
    rest.sort_unstable_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)));
    rest.pop();
    let mut sum = 0.0;
    for id in small.into_iter().chain(rest) {
        sum += weights[id];
        if sum > droppable {
            break;
        }
        scores[id] = f64::NEG_INFINITY;
    }
}

/// Drops tokens whose probability is below `p` times the greatest.
pub fn min_p(scores: &mut [f64], p: f32) {
    let least = scores[likeliest(scores)] + libm::log(f64::from(p));
    drop_where(scores, |score| score < least);
}

fn drop_where(scores: &mut [f64], dropped: impl Fn(f64) -> bool) {
    for score in scores.iter_mut().filter(|score| dropped(**score)) {
        *score = f64::NEG_INFINITY;
    }
}

/// Index of the greatest score, the lowest among equals.
pub fn likeliest(scores: &[f64]) -> usize {
    first_greatest(scores.iter().copied())
}

/// [`likeliest`] of an iterator.
pub(super) fn first_greatest(scores: impl Iterator<Item = f64>) -> usize {
    let first = (0, f64::NEG_INFINITY);
    let pick = |best: (usize, f64), this: (usize, f64)| if this.1 > best.1 { this } else { best };
    scores.enumerate().fold(first, pick).0
}

/// exp(score - greatest score): probabilities up to a factor.
pub fn weights(scores: &[f64]) -> Vec<f64> {
    let greatest = scores[likeliest(scores)];
    scores
        .iter()
        .map(|score| libm::exp(score - greatest))
        .collect()
}

/// Probabilities of the scores.
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let mut weights = weights(scores);
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}
