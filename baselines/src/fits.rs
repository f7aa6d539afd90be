//! Whether a session fits the model's context, and an agent's transcript the page pool, asked before anything is computed.
//!
//! Not here: what a pool does that cannot hold all of them at once (`engine`): it evicts, and who does not fit waits.

use workloads::arm::Arm;
use workloads::envelope::ResolvedEnvelope;

use crate::Error;

const PAGE_POSITIONS: u64 = engine::PAGE_POSITIONS as u64;

/// Refuses a session whose last turn would not fit.
pub(crate) fn check(
    envelope: &ResolvedEnvelope,
    arm: &Arm,
    context_length: usize,
) -> Result<(), Error> {
    let shape = envelope.workload_of(arm.name).shape();
    let transcript = shape.transcript().unwrap_or(u64::MAX);
    if transcript > context_length as u64 {
        let model = envelope.model.clone();
        return Err(Error::Context {
            model,
            needed: transcript,
            available: context_length as u64,
        });
    }
    // One page more than a transcript fills: a partly matched page is copied before it is extended.
    let needed = transcript.div_ceil(PAGE_POSITIONS) + 1;
    let available = envelope.run.kv_pages as u64;
    if needed > available {
        return Err(Error::Pages {
            arm: arm.name.to_owned(),
            needed,
            available,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use workloads::arm::named;
    use workloads::envelope::{Envelope, Overrides};

    /// `smoke`: transcripts of 100 + 4 * 8 + 3 * 12 = 168 positions, three pages, one of them common.
    fn smoke(kv_pages: usize) -> ResolvedEnvelope {
        let smoke = Envelope::named("smoke").unwrap();
        let mut resolved = smoke.resolve(&Overrides::default(), 1).unwrap();
        resolved.run.kv_pages = kv_pages;
        resolved
    }

    #[test]
    fn a_transcript_longer_than_the_context_is_refused_with_both_lengths() {
        let arm = named("naive").unwrap();
        assert!(check(&smoke(4096), arm, 168).is_ok());
        let error = check(&smoke(4096), arm, 167).unwrap_err().to_string();
        assert!(error.contains("168") && error.contains("167"), "{error}");
        assert!(error.contains("workload.turns"), "{error}");
    }

    #[test]
    fn one_transcript_must_fit_the_pool_whatever_the_arm_keeps() {
        for name in ["naive", "agent-kv", "fused"] {
            let arm = named(name).unwrap();
            assert!(check(&smoke(4), arm, 168).is_ok(), "{name}");
            let error = check(&smoke(3), arm, 168).unwrap_err().to_string();
            assert!(error.contains("4 KV pages"), "{error}");
            assert!(error.contains("run.kv_pages"), "{error}");
        }
    }
}
