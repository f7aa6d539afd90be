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

/// Logits looked at together.
const STRIPES: usize = 64;

/// The next id after `prompt` and `output`; the index of a logit that is not finite as the error.
pub fn choose(
    params: &SamplingParams,
    prompt: &[u32],
    output: &[u32],
    logits: &[f32],
) -> Result<u32, usize> {
    if let Some(index) = first_not_finite(logits) {
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

/// Index of the greatest logit, ties to the lower one; negative zero ties with zero.
fn greedy_index(logits: &[f32]) -> usize {
    // The greatest of each stripe first, which the compiler does eight at a time; then where it is.
    let mut stripes = [f32::NEG_INFINITY; STRIPES];
    for logits in logits.chunks(STRIPES) {
        for (greatest, &logit) in stripes.iter_mut().zip(logits) {
            *greatest = if logit > *greatest { logit } else { *greatest };
        }
    }
    let greater = |a, b| if b > a { b } else { a };
    let greatest = stripes.into_iter().fold(f32::NEG_INFINITY, greater);
    let found = logits.iter().position(|logit| *logit >= greatest);
    found.unwrap_or(0)
}

fn first_not_finite(logits: &[f32]) -> Option<usize> {
    let finite = |logits: &[f32]| logits.iter().fold(true, |all, x| all & x.is_finite());
    let bad = logits.chunks(STRIPES).position(|chunk| !finite(chunk))?;
    let within = logits[bad * STRIPES..].iter();
    within
        .enumerate()
        .find(|(_, x)| !x.is_finite())
        .map(|(i, _)| bad * STRIPES + i)
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
