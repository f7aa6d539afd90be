//! The order of admission, as traces tell it: what it saves, that nobody is overtaken beyond the bound, and that no answer changes.
//!
//! Not here: the order itself (`engine`), or lies about it (`audit`'s corpus).
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use std::cell::Cell;
use std::collections::BTreeMap;

use baselines::{ArmJob, Host, Servers, run_arm};
use workloads::envelope::{Admission, AdmissionOrder, Envelope, Overrides, ResolvedEnvelope};
use workloads::trace::{Body, Line};

const ARMS: [&str; 2] = ["agent-kv-batched", "instance-shared"];

/// An embedded envelope, asked of a model that computes next to nothing: who waits and what is found follows from ids alone.
fn asked(name: &str) -> ResolvedEnvelope {
    let overrides = Overrides {
        model: Some("synthetic-tiny".to_owned()),
        ..Overrides::default()
    };
    let envelope = Envelope::named(name).unwrap();
    envelope.resolve(&overrides, 1).unwrap()
}

fn cache_aware(overtaken_max: usize) -> Admission {
    Admission {
        order: AdmissionOrder::CacheAware,
        overtaken_max,
    }
}

/// What one arm's trace says.
#[derive(Debug, Default)]
struct Told {
    admission: Option<Admission>,
    /// By request: output and hash of the last logits.
    answers: BTreeMap<String, (Vec<u32>, String)>,
    /// Of each `prefill` line, and what `end` says they come to.
    computed: (u64, u64),
    overtaken_most: usize,
}

fn play(envelope: &ResolvedEnvelope, arm: &str) -> Told {
    let job = ArmJob {
        envelope: envelope.clone(),
        arm: arm.to_owned(),
        rep: 0,
        model_path: None,
        perturbed: false,
        servers: Servers::default(),
    };
    let (now, mut out) = (Cell::new(0), Vec::new());
    let host = Host {
        clock: &|| now.replace(now.get() + 1),
        peak_rss: &|| Some(7),
        abandoned: &|| false,
    };
    run_arm(&job, &host, &mut out).unwrap();
    let mut told = Told::default();
    let mut waiting: Vec<(String, usize)> = Vec::new();
    for line in String::from_utf8(out).unwrap().lines() {
        match serde_json::from_str::<Line>(line).unwrap().body {
            Body::Begin { settings, .. } => told.admission = settings.admission,
            Body::Request { id, .. } => waiting.push((id, 0)),
            Body::Prefix { request, .. } => {
                let place = waiting.iter().position(|it| it.0 == request).unwrap();
                for passed in &mut waiting[..place] {
                    passed.1 += 1;
                    told.overtaken_most = told.overtaken_most.max(passed.1);
                }
                waiting.remove(place);
            }
            Body::Prefill { computed, .. } => told.computed.0 += computed as u64,
            Body::Finish {
                request,
                ids,
                logits_sha256,
                ..
            } => {
                told.answers.insert(request, (ids, logits_sha256));
            }
            Body::End {
                prefill_tokens_computed,
                ..
            } => told.computed.1 = prefill_tokens_computed,
            _ => {}
        }
    }
    assert_eq!(told.computed.0, told.computed.1, "{arm}");
    told
}

#[test]
fn the_pair_of_envelopes_differs_in_the_order_alone_and_the_one_that_knows_the_cache_computes_less()
{
    let (first_come, knowing) = (
        asked("admission-first-come"),
        asked("admission-cache-aware"),
    );
    assert_eq!(first_come.workload, knowing.workload);
    let mut run = knowing.run.clone();
    run.admission = None;
    assert_eq!(first_come.run, run);
    for arm in ARMS {
        let (before, after) = (play(&first_come, arm), play(&knowing, arm));
        let (twice, less) = (before.computed.1, after.computed.1);
        eprintln!("{arm}: {twice} computed in the order they came, {less} by what they find");
        assert_eq!(
            (before.admission, after.admission),
            (None, Some(cache_aware(8)))
        );
        assert_eq!(before.answers, after.answers, "{arm}");
        assert_eq!(
            after.overtaken_most, 8,
            "{arm}: the bound is needed, and kept"
        );
        assert!(3 * less < 2 * twice, "{arm}");
    }
}
