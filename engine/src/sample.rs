//! Choosing a token from logits. Greedy so far: the greatest logit, ties to the lower id.
//!
//! Not here: temperatures and filters, which a later version adds as a counter-based sampler.

/// Index of the greatest logit, the lowest among equals; the index of one that is not finite as the error.
pub fn greedy(logits: &[f32]) -> Result<u32, usize> {
    let mut best = 0;
    for (index, logit) in logits.iter().enumerate() {
        if !logit.is_finite() {
            return Err(index);
        }
        if *logit > logits[best] {
            best = index;
        }
    }
    Ok(best as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lower_id_and_nan_is_refused() {
        assert_eq!(greedy(&[1.0, 3.0, 3.0, -2.0]), Ok(1));
        assert_eq!(greedy(&[-0.0, 0.0]), Ok(0));
        assert_eq!(greedy(&[0.0, f32::NAN]), Err(1));
        assert_eq!(greedy(&[0.0, f32::INFINITY]), Err(1));
    }
}
