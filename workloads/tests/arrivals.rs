//! Requests by the clock: when they are due, and which clocks and objectives are refused.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workloads::arrivals::{Arrivals, Process};
use workloads::envelope::{Envelope, embedded};

/// The refusal of `smoke` with these lines more in its workload, and with other arms.
fn refusal(lines: &str, arms: &str) -> Option<String> {
    let smoke = embedded().iter().find(|(name, _)| *name == "smoke");
    let text = smoke
        .unwrap()
        .1
        .replacen("[run]\n", &format!("{lines}\n\n[run]\n"), 1);
    let asked =
        "arms = [\"naive\", \"agent-kv\", \"agent-kv-batched\", \"instance-shared\", \"fused\"]";
    assert!(text.contains(asked));
    let text = text.replacen(asked, &format!("arms = {arms}"), 1);
    Envelope::parse(&text, "x.toml")
        .err()
        .map(|error| error.to_string())
}

/// The generator as audit/FORMAT.md has it, written again.
fn gap_ns(state: &mut u64, interval_us: u64) -> u64 {
    let mut next = || {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let uniform = (next() >> 11) as f64 / 2_f64.powi(53);
    (-(1.0 - uniform).ln() * (1000 * interval_us) as f64).round() as u64
}

proptest! {
    #[test]
    fn poisson_gaps_are_those_of_the_format_page(seed: u64, interval_us in 1_u64..600_000_000) {
        // Keys seed, 3: each joins the next number of the state before it.
        let mut state = 0_u64;
        for key in [seed, 3] {
            let mut stream = state;
            gap_ns(&mut stream, 1);
            let mut z = stream;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            state = (z ^ (z >> 31)) ^ key;
        }
        let arrivals = Arrivals { process: Process::Poisson, interval_us };
        let mut due_ns = 0;
        for (k, offset_ns) in arrivals.offsets_ns(seed).take(50).enumerate() {
            if k > 0 {
                due_ns += gap_ns(&mut state, interval_us);
            }
            prop_assert_eq!(offset_ns, due_ns, "request {}", k);
        }
    }
}

#[test]
fn poisson_gaps_have_the_declared_mean_and_constant_ones_are_alike() {
    let offsets = |process| {
        let arrivals = Arrivals {
            process,
            interval_us: 250,
        };
        arrivals.offsets_ns(7).take(100_001).collect::<Vec<_>>()
    };
    let constant = offsets(Process::Constant);
    assert_eq!(constant[..3], [0, 250_000, 500_000]);
    let poisson = offsets(Process::Poisson);
    let mean_ns = poisson[100_000] as f64 / 100_000.0;
    // The mean of 100 000 exponential gaps strays by a third of a percent.
    assert!((mean_ns / 250_000.0 - 1.0).abs() < 0.02, "{mean_ns}");
    // Gaps beyond the mean: one in e.
    let long = poisson.windows(2).filter(|it| it[1] - it[0] > 250_000);
    assert!((long.count() as f64 / 36_788.0 - 1.0).abs() < 0.03);
}

#[test]
fn a_clock_and_an_objective_that_can_be_kept_are_taken() {
    let ours = "[\"naive\", \"fused\"]";
    let theirs = "[\"fused\", \"llama-server:agent\"]";
    let clock = "arrivals = { process = \"poisson\", interval_us = 100000 }";
    for (lines, arms) in [
        (clock.to_owned(), ours),
        (
            format!("{clock}\nslo = {{ ttft_ms = 5, tpot_ms = 1 }}"),
            ours,
        ),
        (
            format!("{clock}\nslo = {{ e2e_ms = 500 }}\nbos_id = 1"),
            theirs,
        ),
    ] {
        assert_eq!(refusal(&lines, arms), None, "{lines}");
    }
}

#[test]
fn clocks_and_objectives_that_mean_nothing_are_refused_with_the_line_and_a_remedy() {
    let ours = "[\"naive\", \"fused\"]";
    let theirs = "[\"fused\", \"llama-server:agent\"]";
    let clock = "arrivals = { process = \"constant\", interval_us = 100000 }";
    for (lines, arms, words) in [
        (
            "arrivals = { process = \"constant\", interval_us = 0 }".to_owned(),
            ours,
            "workload.arrivals.interval_us = 0; give 1 to 600000000",
        ),
        (
            "arrivals = { process = \"burst\", interval_us = 1 }".to_owned(),
            ours,
            "burst",
        ),
        (
            "arrivals = { process = \"constant\", interval_us = 1, rate = 2 }".to_owned(),
            ours,
            "rate",
        ),
        (
            format!("{clock}\norder = \"agents\""),
            ours,
            "no order = \"agents\"",
        ),
        (
            "slo = { e2e_ms = 5 }".to_owned(),
            ours,
            "workload.arrivals too",
        ),
        (
            format!("{clock}\nslo = {{ }}"),
            ours,
            "one or more of ttft_ms",
        ),
        (
            format!("{clock}\nslo = {{ e2e_ms = 0 }}"),
            ours,
            "workload.slo.e2e_ms = 0; give 1 to 7200000",
        ),
        (
            format!("{clock}\nslo = {{ ttft_ms = 5 }}"),
            theirs,
            "e2e_ms alone: the answers of llama-server:agent come whole",
        ),
    ] {
        let said = refusal(&lines, arms).unwrap_or_default();
        assert!(said.contains(words), "{lines}: {said}");
        assert!(said.contains("line"), "{said}");
    }
}
