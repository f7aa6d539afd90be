//! Fan-out: published arithmetic, and the two controls that must give nothing.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workloads::fanout::{Fanout, PROFILES, Profile};

fn fanout(agents: u64) -> Fanout {
    Fanout {
        agents,
        turns: 4,
        prefix: 2048,
    }
}

/// fak-facts 1.4.
#[test]
fn a_thousand_agents_give_the_published_path_and_prefix() {
    let path = fanout(1024).path().unwrap();
    assert_eq!(
        (path.fold_turns, path.total_turns, path.critical_turns),
        (52, 4149, 57)
    );
    assert_eq!(fanout(1024).prefix_tokens_saved(), Some(2_095_104));
    let speedups = [4, 16, 64, 256, 1024].map(|agents| {
        let path = fanout(agents).path().unwrap();
        format!(
            "{:.1}",
            path.total_turns as f64 / path.critical_turns as f64
        )
    });
    assert_eq!(speedups, ["3.0", "11.0", "29.0", "57.7", "72.8"]);
    assert_eq!(
        Fanout {
            agents: u64::MAX,
            ..fanout(1)
        }
        .path(),
        None
    );
    assert_eq!(
        Fanout {
            agents: u64::MAX,
            ..fanout(1)
        }
        .prefix_tokens_saved(),
        None
    );
}

proptest! {
    #[test]
    fn one_agent_and_agents_with_nothing_in_common_gain_exactly_nothing(
        seed: u64, trial in 0_u64..100, agents in 1_u64..200
    ) {
        for profile in &PROFILES {
            prop_assert_eq!(fanout(1).saved(profile, seed, trial).uplift(), 0, "{}", profile.name);
        }
        let nothing = fanout(agents).saved(Profile::named("no-share").unwrap(), seed, trial);
        prop_assert_eq!(nothing.uplift(), 0);
        prop_assert_eq!(nothing.calls, 4 + 4 * agents);
    }

    #[test]
    fn sharing_never_saves_fewer_calls_than_knowing_ones_own(
        seed: u64, agents in 1_u64..100, which in 0_usize..3
    ) {
        let saved = fanout(agents).saved(&PROFILES[which], seed, 0);
        prop_assert!(saved.isolated <= saved.shared && saved.shared <= saved.calls);
    }
}

#[test]
fn writing_lowers_what_sharing_gains() {
    let uplift = |name: &str| -> u64 {
        let profile = Profile::named(name).unwrap();
        (0..16)
            .map(|trial| fanout(64).saved(profile, 1, trial).uplift())
            .sum()
    };
    assert!(uplift("write-goal") < uplift("research-goal"));
}
