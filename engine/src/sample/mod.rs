//! Choosing the next token from logits: the likeliest, or one drawn from a filtered distribution.
//!
//! A choice is a function of logits, parameters, text so far and position, and of nothing else: batch, cache, threads
//! and restarts cannot change it. Numbers are f64 with `exp` and `log` of the `libm` crate, so that it is also the same
//! on every platform. Not here: turning ids into text (`stop` sees text that others decoded), grammars.

pub mod filter;
pub mod generator;
mod params;
pub mod stop;

pub use params::SamplingParams;
pub use stop::StopMatcher;

use crate::event::Logprob;

/// The next id after `prompt` and `output`; the index of a logit that is not finite as the error.
pub fn choose(
    params: &SamplingParams,
    prompt: &[u32],
    output: &[u32],
    logits: &[f32],
) -> Result<u32, usize> {
    if let Some(index) = logits.iter().position(|logit| !logit.is_finite()) {
        return Err(index);
    }
    if params.is_greedy() && params.logit_bias.is_empty() && !params.penalises() {
        return Ok(greedy_index(logits) as u32);
    }
    let scores = filter::shifted(params, prompt, output, logits);
    if params.is_greedy() {
        return Ok(filter::likeliest(&scores) as u32);
    }
    let weights = filter::weights(&filter::filtered(params, scores));
    let position = (prompt.len() + output.len()) as u64;
    Ok(draw(&weights, generator::uniform(params.seed, position)) as u32)
}

/// Probabilities `[vocab]` that [`choose`] draws from; 1 at the likeliest id where the choice is greedy.
pub fn probabilities(
    params: &SamplingParams,
    prompt: &[u32],
    output: &[u32],
    logits: &[f32],
) -> Vec<f64> {
    let scores = filter::shifted(params, prompt, output, logits);
    if params.is_greedy() {
        let mut certain = vec![0.0; scores.len()];
        certain[filter::likeliest(&scores)] = 1.0;
        return certain;
    }
    filter::softmax(&filter::filtered(params, scores))
}

/// Inverse of the cumulative distribution, ids ascending: the first id whose running sum exceeds `uniform` of the whole.
fn draw(weights: &[f64], uniform: f64) -> usize {
    let target = uniform * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let chosen = weights.iter().position(|weight| {
        sum += weight;
        sum > target
    });
    // The last sum is the whole, which a uniform below 1 never reaches.
    chosen.unwrap_or(0)
}

/// Log-softmax of the raw logits: the chosen id first, then the `top` likeliest, ties to the lower id.
///
/// Raw means before bias, penalties, temperature and filters.
pub fn logprobs(logits: &[f32], chosen: u32, top: usize) -> Vec<Logprob> {
    let greatest = logits[greedy_index(logits)];
    let sum: f64 = logits
        .iter()
        .map(|logit| libm::exp(f64::from(*logit) - f64::from(greatest)))
        .sum();
    let normaliser = f64::from(greatest) + libm::log(sum);
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let descending = |a: &u32, b: &u32| {
        let (left, right) = (logits[*a as usize] + 0.0, logits[*b as usize] + 0.0);
        right.total_cmp(&left).then(a.cmp(b))
    };
    if top < ids.len() {
        ids.select_nth_unstable_by(top, descending);
        ids.truncate(top);
    }
    ids.sort_unstable_by(descending);
    std::iter::once(chosen)
        .chain(ids)
        .map(|id| Logprob {
            id,
            logprob: f64::from(logits[id as usize]) - normaliser,
        })
        .collect()
}

fn greedy_index(logits: &[f32]) -> usize {
    let scores = logits.iter().map(|logit| f64::from(*logit));
    filter::first_greatest(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lower_id_and_a_logit_that_is_not_finite_is_refused() {
        let greedy = |logits: &[f32]| choose(&SamplingParams::default(), &[], &[], logits);
        assert_eq!(greedy(&[1.0, 3.0, 3.0, -2.0]), Ok(1));
        assert_eq!(greedy(&[-0.0, 0.0]), Ok(0));
        assert_eq!(greedy(&[0.0, f32::NAN]), Err(1));
        assert_eq!(greedy(&[0.0, f32::INFINITY]), Err(1));
        assert_eq!(greedy(&[f32::NEG_INFINITY, 0.0]), Err(0));
    }

    #[test]
    fn a_draw_never_lands_on_a_weight_of_zero() {
        let weights = [0.0, 0.25, 0.0, 0.5, 0.25, 0.0];
        for (uniform, expected) in [(0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4)] {
            assert_eq!(draw(&weights, uniform), expected, "{uniform}");
        }
        assert_eq!(draw(&weights, 1.0 - f64::EPSILON / 2.0), 4);
    }
}
