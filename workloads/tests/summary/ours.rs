//! Summaries of our own arms: figures, ratios, identity, and what cannot be summarised.

use workloads::arm::named;
use workloads::arrivals::{Arrivals, Objective, Process};
use workloads::envelope::ResolvedEnvelope;
use workloads::oracle::counts;
use workloads::trace::{Body, ids_sha256, sha256_hex};

use crate::fabricated::{Fabricated, envelope, fabricate, finish_of, pair, summary};

#[test]
fn a_whole_ladder_gets_its_figures_ratios_and_verdict() {
    let envelope = envelope(&[], 5);
    let walls = [8000, 4000, 3000, 2000, 1000];
    let traces: Vec<Fabricated> = (0..5)
        .flat_map(|rep| {
            envelope
                .run
                .arms
                .iter()
                .zip(walls)
                .map(move |(arm, wall)| (arm, rep, wall))
        })
        .map(|(arm, rep, wall)| fabricate(&envelope, arm, rep, wall + rep as u64))
        .collect();
    let summary = summary(&envelope, &traces).unwrap();
    assert!(summary.complete && summary.identity.equal);
    assert_eq!(
        (summary.identity.requests, summary.identity.arms.len()),
        (12, 5)
    );
    assert_eq!(summary.order[..2], ["naive-0", "agent-kv-0"]);
    let rungs: Vec<String> = summary
        .ratios
        .iter()
        .map(|r| format!("{}/{}", r.arm, r.denominator))
        .collect();
    let ladder = [
        "agent-kv/naive",
        "agent-kv-batched/agent-kv",
        "instance-shared/agent-kv-batched",
        "fused/instance-shared",
        "fused/agent-kv",
        "fused/naive",
    ];
    assert_eq!(rungs, ladder);
    let last = &summary.ratios[5];
    assert_eq!(last.label.as_deref(), Some("floor"));
    assert_eq!(last.prefill_tokens, Some(7.5)); // 3 * (4 * 100 + 6 * 20) over 100 + 3 * 3 * 12
    assert_eq!(last.wall, Some(7.986_028)); // 8002 / 1002
    assert_eq!(last.prefill, Some(7.986_028)); // 4001 / 501
    assert_eq!(last.verdict.as_deref(), Some("FASTER"));
    assert_eq!(summary.verdict.as_deref(), Some("FASTER"));
    let naive = &summary.arms["naive"];
    assert_eq!(naive.wall_ns, Some(8002));
    assert_eq!(
        (naive.kv_bytes_peak, naive.rss_bytes_peak),
        (Some(1004), Some(77))
    );
    assert_eq!(naive.reuse_rate, Some(0.0));
    assert_eq!(
        naive.prefill_tokens_computed,
        Some(naive.oracle_prefill_tokens)
    );
}

/// The ladder in five repetitions, `naive` in its first `turns` turns.
fn uneven(turns: usize) -> (ResolvedEnvelope, Vec<Fabricated>) {
    let mut envelope = envelope(&[], 5);
    envelope.run.arm_turns.insert("naive".to_owned(), turns);
    let arms = envelope.run.arms.clone();
    let traces = (0..5)
        .flat_map(|rep| arms.iter().map(move |arm| (arm, rep)))
        .map(|(arm, rep)| fabricate(&envelope, arm, rep, 1000))
        .collect();
    (envelope, traces)
}

#[test]
fn arms_of_unequal_turns_compare_in_the_tokens_of_the_turns_both_play_and_not_in_time() {
    for turns in 1..4 {
        let (envelope, traces) = uneven(turns);
        let summary = summary(&envelope, &traces).unwrap();
        assert!(summary.complete && summary.identity.equal);
        assert_eq!(summary.identity.requests, 12);
        let naive = &summary.arms["naive"];
        assert_eq!(naive.requests, Some(3 * turns as u64));
        assert_eq!(
            naive.prefill_tokens_computed,
            Some(naive.oracle_prefill_tokens)
        );
        let note = format!("plays the first {turns} of 4 turns");
        assert_eq!(naive.note.as_deref(), Some(note.as_str()));
        let closed = |arm: &str| {
            let shape = envelope.workload_of("naive").shape();
            let counts = counts(named(arm).unwrap(), &shape).unwrap();
            counts.prefill_tokens_computed as f64
        };
        for ratio in &summary.ratios {
            if ratio.denominator != "naive" {
                assert_eq!((ratio.wall, &ratio.withheld), (Some(1.0), &None));
                continue;
            }
            let expected = closed("naive") / closed(&ratio.arm);
            assert!(
                (ratio.prefill_tokens.unwrap() - expected).abs() < 1e-6,
                "{ratio:?}"
            );
            let times = (ratio.wall, ratio.wall_low, ratio.wall_high, ratio.prefill);
            assert_eq!((times, &ratio.verdict), ((None, None, None, None), &None));
            let reason = format!("unequal turns: {} 4, naive {turns}", ratio.arm);
            assert_eq!(ratio.withheld, Some(reason));
        }
        assert_eq!(summary.verdict.as_deref(), Some("PARITY"));
    }
}

#[test]
fn a_difference_in_a_turn_the_first_run_does_not_play_is_found() {
    let (envelope, mut traces) = uneven(2);
    let other = traces.iter_mut().find(|it| it.arm == "fused").unwrap();
    finish_of(other, "a1-t3").0[0] += 1;
    let summary = summary(&envelope, &traces).unwrap();
    let at = summary.identity.first_divergence.unwrap();
    assert_eq!(
        (at.arm.as_str(), at.rep, at.agent, at.turn, at.position),
        ("fused", 0, 1, 3, Some(0))
    );
    for ratio in summary.ratios {
        assert!(ratio.withheld.unwrap().starts_with("answers differ"));
    }
}

#[test]
fn answers_are_hashed_in_the_order_of_agent_and_turn() {
    let (envelope, traces) = pair();
    let summary = summary(&envelope, &traces).unwrap();
    let places = || (0..3u32).flat_map(|agent| (0..4u32).map(move |turn| (agent, turn)));
    let ids: Vec<u32> = places().flat_map(|(agent, turn)| [agent, turn]).collect();
    let logits: Vec<String> = places()
        .map(|(agent, turn)| format!("l{agent}{turn}"))
        .collect();
    let fused = &summary.arms["fused"];
    assert_eq!(fused.output_sha256, Some(ids_sha256(&ids)));
    assert_eq!(
        fused.logits_sha256,
        Some(sha256_hex(logits.concat().as_bytes()))
    );
}

#[test]
fn a_difference_in_ids_or_only_in_logits_withholds_every_ratio() {
    for (change_ids, position) in [(true, Some(1)), (false, None)] {
        let (envelope, mut traces) = pair();
        let (ids, logits) = finish_of(&mut traces[5], "a1-t2");
        if change_ids {
            ids[1] += 1;
        } else {
            logits.push('x');
        }
        let summary = summary(&envelope, &traces).unwrap();
        let at = summary.identity.first_divergence.unwrap();
        assert!(!summary.identity.equal && summary.complete);
        assert_eq!(
            (at.arm.as_str(), at.rep, at.agent, at.turn),
            ("fused", 2, 1, 2)
        );
        assert_eq!(at.position, position);
        let ratio = &summary.ratios[0];
        assert_eq!(
            (ratio.wall, ratio.wall_low, ratio.prefill),
            (None, None, None)
        );
        assert!(
            ratio
                .withheld
                .as_ref()
                .unwrap()
                .contains("fused-2, agent 1, turn 2")
        );
        assert_eq!((ratio.verdict.as_ref(), summary.verdict), (None, None));
        assert_eq!(ratio.prefill_tokens, Some(1.0));
    }
}

#[test]
fn a_failed_arm_keeps_its_record_and_loses_its_ratios() {
    let (envelope, mut traces) = pair();
    traces[3].lines.truncate(6);
    let message = "out of pages".to_owned();
    let last = traces[3].lines.last_mut().unwrap();
    last.body = Body::Error {
        message: message.clone(),
    };
    let summary = summary(&envelope, &traces).unwrap();
    let fused = &summary.arms["fused"];
    assert!(!summary.complete && summary.ratios.is_empty() && summary.verdict.is_none());
    assert_eq!(
        (fused.error.as_ref(), fused.reps, fused.completed),
        (Some(&message), 5, 4)
    );
    assert_eq!((fused.wall_ns, fused.prefill_tokens_computed), (None, None));
    assert_eq!(fused.samples.len(), 4);
    assert_eq!(summary.identity.arms, ["instance-shared"]);
}

#[test]
fn few_pairs_get_no_interval_and_pairs_are_the_fewer_of_two() {
    let mut envelope = envelope(&["instance-shared", "fused"], 5);
    envelope.run.arm_reps.insert("fused".to_owned(), 2);
    let (_, mut traces) = pair();
    traces.retain(|trace| trace.arm != "fused" || trace.rep < 2);
    let summary = summary(&envelope, &traces).unwrap();
    let ratio = &summary.ratios[0];
    assert_eq!(
        (ratio.pairs, ratio.wall_low, ratio.wall_high),
        (2, None, None)
    );
    assert_eq!(ratio.verdict.as_deref(), Some("INCONCLUSIVE"));
    assert_eq!(ratio.wall, Some(1.9995)); // mean of 2000/1000 and 2001/1001
}

#[test]
fn a_time_of_zero_gives_no_ratio_instead_of_infinity() {
    let (envelope, mut traces) = pair();
    traces[1] = fabricate(&envelope, "fused", 0, 0);
    let summary = summary(&envelope, &traces).unwrap();
    assert_eq!(
        (summary.ratios[0].wall, summary.ratios[0].prefill),
        (None, None)
    );
    assert!(
        summary.ratios[0]
            .withheld
            .as_ref()
            .unwrap()
            .contains("0 ns")
    );
}

#[test]
fn traces_that_are_missing_doubled_foreign_or_cut_short_are_refused() {
    type Damage = fn(&mut Vec<Fabricated>);
    let damages: [(Damage, &str); 10] = [
        (Vec::clear, "instance-shared-0: there is none"),
        (|traces| drop(traces.remove(5)), "fused-2: there is none"),
        (|traces| drop(traces.pop()), "fused-4: there is none"),
        (|traces| traces[9].rep = 5, "`begin` says fused-4"),
        (|traces| traces[3].lines.clear(), "first line is no `begin`"),
        (|traces| drop(traces[3].lines.pop()), "no `end` or `error`"),
        (
            |traces| drop(traces[3].lines.drain(1..4)),
            "answers 11 of 12 requests",
        ),
        (
            |traces| drop(traces[3].lines.remove(1)),
            "finishes before it was made",
        ),
        (
            |traces| {
                let finish = traces[3].lines[3].clone();
                traces[3].lines.insert(4, finish);
            },
            "finishes twice",
        ),
        (
            |traces| {
                if let Body::End { carried_tokens, .. } =
                    &mut traces[3].lines.last_mut().unwrap().body
                {
                    *carried_tokens += 1;
                }
            },
            "counts other tokens",
        ),
    ];
    for (damage, part) in damages {
        let (envelope, mut traces) = pair();
        damage(&mut traces);
        let error = summary(&envelope, &traces).unwrap_err().to_string();
        assert!(error.contains(part), "`{part}` not in: {error}");
    }
    let (envelope, mut traces) = pair();
    traces.push(fabricate(&envelope, "fused", 1, 5));
    let error = summary(&envelope, &traces).unwrap_err().to_string();
    assert!(error.contains("fused-1: stands there twice"), "{error}");
    traces.pop();
    traces.push(fabricate(&envelope, "fused", 5, 5));
    let error = summary(&envelope, &traces).unwrap_err().to_string();
    assert!(error.contains("fused-5: was not asked for"), "{error}");
    traces.pop();
    traces.push(fabricate(&envelope, "naive", 0, 5));
    let error = summary(&envelope, &traces).unwrap_err().to_string();
    assert!(
        error.contains("naive-0: its arm was not asked for"),
        "{error}"
    );
}

#[test]
fn arms_of_unlike_models_or_settings_are_not_summarised_together() {
    let (envelope, mut traces) = pair();
    if let Body::Begin { settings, .. } = &mut traces[4].lines[0].body {
        settings.threads = 3;
    }
    let error = summary(&envelope, &traces).unwrap_err().to_string();
    assert!(error.contains("instance-shared-2: its settings"), "{error}");
    if let Body::Begin { model_sha256, .. } = &mut traces[1].lines[0].body {
        model_sha256.push('x');
    }
    let error = summary(&envelope, &traces).unwrap_err().to_string();
    assert!(error.contains("fused-0: its model"), "{error}");
}

#[test]
fn times_of_requests_are_those_of_their_tokens_over_all_repetitions() {
    let (envelope, mut traces) = pair();
    // Three of the five repetitions of `fused` hold most of its requests.
    for trace in [1, 3, 5] {
        for line in &mut traces[trace].lines {
            if let Body::Finish { token_t_ns, .. } = &mut line.body {
                *token_t_ns = vec![10, 31];
            }
        }
    }
    let arms = summary(&envelope, &traces).unwrap().arms;
    let times = arms["fused"].latencies.as_ref().unwrap();
    let (tpot, e2e) = (times.tpot_ns.as_ref().unwrap(), &times.e2e_ns);
    let medians = [times.ttft_ns.p50(), tpot.p50(), e2e.p50()];
    assert_eq!((e2e.count, medians), (60, [Some(10), Some(21), Some(31)]));
}

/// `fused` twice, its requests due 100 ns before they were made, but for one that was due a second before.
fn clocked(slo: Objective) -> (ResolvedEnvelope, Vec<Fabricated>) {
    let mut envelope = envelope(&["fused"], 2);
    envelope.workload.arrivals = Some(Arrivals {
        process: Process::Constant,
        interval_us: 1,
    });
    envelope.workload.slo = Some(slo);
    let mut traces: Vec<Fabricated> = (0..2)
        .map(|rep| fabricate(&envelope, "fused", rep, 1000))
        .collect();
    for trace in &mut traces {
        for (place, line) in trace.lines.iter_mut().enumerate() {
            line.t_ns = 1_000_000_000 + 1000 * place as u64;
            if let Body::Request { id, due_ns, .. } = &mut line.body {
                let late = if id == "a1-t2" { 1_000_000_000 } else { 100 };
                *due_ns = Some(line.t_ns - late);
            }
        }
    }
    (envelope, traces)
}

#[test]
fn requests_by_the_clock_have_their_times_from_when_they_were_due_and_no_ratio_of_walls() {
    let (envelope, traces) = clocked(Objective {
        e2e_ms: Some(10),
        ..Objective::default()
    });
    let found = summary(&envelope, &traces).unwrap();
    let arm = &found.arms["fused"];
    let latencies = arm.latencies.as_ref().unwrap();
    let nearest = |of: &workloads::statistics::spread::Distribution| {
        (of.count, of.percentiles["p50"].nearest)
    };
    assert_eq!(nearest(&latencies.e2e_ns), (24, 2));
    assert_eq!(
        nearest(latencies.scheduled_e2e_ns.as_ref().unwrap()),
        (24, 102)
    );
    assert_eq!(
        nearest(latencies.scheduled_ttft_ns.as_ref().unwrap()),
        (24, 101)
    );
    let goodput = arm.goodput.as_ref().unwrap();
    assert_eq!((goodput.offered, goodput.good), (24, 22));
    // Each repetition from 100 ns before the second line to the finish of the twelfth request, 35 lines on.
    assert_eq!(
        goodput.good_per_s,
        Some(workloads::statistics::round6(22e9 / (2.0 * 35_100.0)))
    );
}

#[test]
fn an_answer_of_one_token_keeps_no_objective_of_time_per_token() {
    let (envelope, mut traces) = clocked(Objective {
        tpot_ms: Some(1000),
        ..Objective::default()
    });
    let all = summary(&envelope, &traces).unwrap().arms["fused"]
        .goodput
        .clone();
    assert_eq!(all.unwrap().good, 24);
    for trace in &mut traces {
        for line in &mut trace.lines {
            if let Body::Finish {
                request,
                token_t_ns,
                ..
            } = &mut line.body
                && request == "a0-t0"
            {
                token_t_ns.truncate(1);
            }
        }
    }
    let found = summary(&envelope, &traces).unwrap().arms["fused"]
        .goodput
        .clone();
    let goodput = found.unwrap();
    assert_eq!((goodput.offered, goodput.good), (24, 22));
}
