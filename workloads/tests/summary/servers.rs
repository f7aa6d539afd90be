//! Summaries of other engines' arms: what is theirs, what stays unknown, how they are scored and compared.

use workloads::envelope::{Envelope, Overrides, ResolvedEnvelope};
use workloads::record::{RatioRecord, ScoredToken};
use workloads::summary::Summary;
use workloads::trace::server::{
    Answer, BeginScore, BeginServer, EndScore, EndServer, Primed, Ready, Score, Sent,
    ServerSettings,
};
use workloads::trace::{Body, Line, Program};

use crate::fabricated::{Fabricated, envelope, fabricate, finish_of, id, lines, request, summary};

const SHARED: &str = "llama-server:shared";
const AGENT: &str = "llama-server:agent";

fn begin(arm: &str, rep: usize) -> Body {
    Body::BeginServer(BeginServer {
        schema: "fak.trace/1".to_owned(),
        envelope: "smoke".to_owned(),
        envelope_sha256: "e".to_owned(),
        arm: arm.to_owned(),
        rep,
        model_sha256: "m".to_owned(),
        program: Program {
            name: "llama-server".to_owned(),
            sha256: Some(format!("p{rep}")),
            libraries_sha256: None,
            version: None,
            arguments: vec!["--port".to_owned(), "PORT".to_owned()],
        },
    })
}

fn sent() -> Sent {
    Sent {
        path: "/completion".to_owned(),
        body: "{\"prompt\":[]}".to_owned(),
        body_sha256: "b".to_owned(),
    }
}

/// Two pieces: one token after 10 ns, two more 30 ns later.
fn answer(agent: usize, turn: usize, computed: usize) -> Body {
    Body::Answer(Answer {
        request: id(agent, turn),
        sent: sent(),
        connect_ns: None,
        status: 200,
        ids: vec![agent as u32, turn as u32, 7],
        chunk_t_ns: vec![10, 41],
        chunk_tokens: vec![1, 2],
        reason: "length".to_owned(),
        usage: "{}".to_owned(),
        cached: Some(5),
        computed: Some(computed),
    })
}

fn end_of(trace: &mut Fabricated) -> &mut EndServer {
    match &mut trace.lines.last_mut().unwrap().body {
        Body::EndServer(end) => end,
        other => panic!("{other:?}"),
    }
}

/// A server's repetition that took `wall_ns` and computed 100 positions of the text and 10 of every prompt.
fn answered(envelope: &ResolvedEnvelope, arm: &str, rep: usize, wall_ns: u64) -> Fabricated {
    let workload = envelope.workload_of(arm);
    let mut bodies = vec![begin(arm, rep)];
    bodies.push(Body::Ready(Ready {
        settings: ServerSettings {
            threads: Some(2),
            ..ServerSettings::default()
        },
        barred: vec![],
        load_ns: 3,
    }));
    bodies.push(Body::Primed(Primed {
        text: "prefix".to_owned(),
        status: 200,
        usage: "{}".to_owned(),
        cached: Some(0),
        computed: Some(100),
    }));
    for turn in 0..workload.turns {
        for agent in (0..workload.agents).rev() {
            bodies.extend([request(agent, turn), answer(agent, turn, 10)]);
        }
    }
    let requests = envelope.requests_of(arm);
    bodies.push(Body::EndServer(EndServer {
        requests,
        prompt_tokens: 2000,
        cached_tokens: Some(500),
        computed_tokens: Some(100 + 10 * requests as u64),
        decode_tokens: 3 * requests as u64,
        warmup_ns: 4,
        wall_ns,
        rss_bytes_peak: (rep == 1).then_some(88),
    }));
    Fabricated {
        arm: arm.to_owned(),
        rep,
        lines: lines(bodies),
        score: Some(score(envelope, arm, rep, &|_, _| 0)),
    }
}

/// The margin of the last token of each answer, by agent and turn; those before are the best.
type Margins<'a> = &'a dyn Fn(usize, usize) -> u64;

fn score(envelope: &ResolvedEnvelope, arm: &str, rep: usize, margins: Margins) -> Vec<Line> {
    let workload = envelope.workload_of(arm);
    let mut bodies = vec![Body::BeginScore(BeginScore {
        schema: "fak.trace/1".to_owned(),
        envelope: "smoke".to_owned(),
        envelope_sha256: "e".to_owned(),
        arm: arm.to_owned(),
        rep,
        model_sha256: "m".to_owned(),
        tokenizer_sha256: None,
        trace_sha256: "t".to_owned(),
        mode: "exact".to_owned(),
        kernels: "scalar".to_owned(),
        threads: 2,
        kv_dtype: "f32".to_owned(),
        barred: vec![],
    })];
    for turn in 0..workload.turns {
        for agent in (0..workload.agents).rev() {
            bodies.push(Body::Score(Score {
                request: id(agent, turn),
                margins_micronats: vec![0, 0, margins(agent, turn)],
            }));
        }
    }
    bodies.push(Body::EndScore(EndScore {
        requests: envelope.requests_of(arm),
        tokens: 36,
        exact_tokens: 36,
        worst_micronats: 0,
        wall_ns: 1,
    }));
    lines(bodies)
}

/// Ours and `servers`, five times each; a server takes three times what ours do.
fn beside(ours: &[&str], servers: &[&str]) -> (ResolvedEnvelope, Vec<Fabricated>) {
    let arms: Vec<&str> = ours.iter().chain(servers).copied().collect();
    let envelope = envelope(&arms, 5);
    let mut traces = Vec::new();
    for rep in 0..5 {
        for arm in ours {
            traces.push(fabricate(&envelope, arm, rep, 1000));
        }
        for arm in servers {
            traces.push(answered(&envelope, arm, rep, 3000));
        }
    }
    (envelope, traces)
}

fn rungs(summary: &Summary) -> Vec<String> {
    let rungs = summary.ratios.iter();
    rungs
        .map(|it| format!("{}/{}", it.arm, it.denominator))
        .collect()
}

fn last(summary: &Summary) -> &RatioRecord {
    summary.ratios.last().unwrap()
}

#[test]
fn a_server_arm_has_its_own_counts_our_times_and_no_figure_it_cannot_have() {
    let (envelope, traces) = beside(&["fused"], &[SHARED]);
    let summary = summary(&envelope, &traces).unwrap();
    assert!(summary.complete && summary.identity.equal);
    assert_eq!(summary.order[..2], ["fused-0", "llama-server.shared-0"]);
    assert_eq!(summary.identity.arms, ["fused"]);
    let arm = &summary.arms[SHARED];
    assert_eq!(
        (arm.provenance.as_str(), arm.cache.as_str(), arm.batched),
        ("OBSERVED", "shared", true)
    );
    let counts = [
        arm.requests,
        arm.prefill_tokens_computed,
        arm.prefill_tokens_logical,
        arm.prefix_tokens_hit,
        arm.decode_tokens,
    ];
    assert_eq!(counts, [12, 220, 2000, 500, 36].map(Some));
    let unknown = [
        arm.carried_tokens,
        arm.replayed_tokens,
        arm.prefill_ns,
        arm.decode_ns,
        arm.kv_bytes_peak,
    ];
    assert_eq!((unknown, &arm.logits_sha256), ([None; 5], &None));
    assert_eq!((arm.reuse_rate, arm.wall_ns), (Some(0.25), Some(3000)));
    assert_eq!(arm.rss_bytes_peak, Some(88));
    let sample = &arm.samples[0];
    assert_eq!((sample.load_ns, sample.warmup_ns), (3, 4));
    assert_eq!((sample.prefill_ns, sample.kv_bytes_peak), (None, None));
    let server = arm.server.as_ref().unwrap();
    assert_eq!(server.program.sha256.as_deref(), Some("p0"));
    assert_eq!(server.settings.as_ref().unwrap().threads, Some(2));
    let ours = &summary.arms["fused"];
    assert_eq!((&ours.server, &ours.score), (&None, &None));
}

#[test]
fn its_times_per_request_are_those_of_its_pieces() {
    let (envelope, traces) = beside(&["fused"], &[SHARED]);
    let arms = summary(&envelope, &traces).unwrap().arms;
    let times = arms[SHARED].latencies.as_ref().unwrap();
    let tpot = times.tpot_ns.as_ref().unwrap().p50();
    let medians = [times.ttft_ns.p50(), tpot, times.e2e_ns.p50()];
    assert_eq!(medians, [Some(10), Some(15), Some(41)]); // two tokens in 31 ns
    assert_eq!(times.e2e_ns.count, 60);
}

#[test]
fn an_answer_in_one_piece_has_no_time_per_token() {
    let (envelope, mut traces) = beside(&["fused"], &[SHARED]);
    for line in traces.iter_mut().flat_map(|trace| &mut trace.lines) {
        if let Body::Answer(answer) = &mut line.body {
            (answer.chunk_t_ns, answer.chunk_tokens) = (vec![9], vec![3]);
        }
    }
    let arms = summary(&envelope, &traces).unwrap().arms;
    let times = arms[SHARED].latencies.as_ref().unwrap();
    assert_eq!(
        (times.ttft_ns.p50(), times.e2e_ns.p50()),
        (Some(9), Some(9))
    );
    assert_eq!(times.tpot_ns, None);
}

#[test]
fn what_repetitions_do_not_agree_on_is_unknown() {
    let (envelope, mut traces) = beside(&["fused"], &[SHARED]);
    end_of(&mut traces[3]).cached_tokens = Some(499);
    end_of(&mut traces[5]).computed_tokens = None;
    if let Body::Answer(answer) = &mut traces[7].lines[4].body {
        answer.ids[0] += 1;
    }
    let summary = summary(&envelope, &traces).unwrap();
    let arm = &summary.arms[SHARED];
    assert_eq!((arm.prefix_tokens_hit, arm.reuse_rate), (None, None));
    assert_eq!(
        (arm.prefill_tokens_computed, &arm.output_sha256),
        (None, &None)
    );
    assert_eq!(arm.prefill_tokens_logical, Some(2000));
    assert_eq!(
        (last(&summary).prefill_tokens, last(&summary).wall),
        (None, Some(3.0))
    );
}

#[test]
fn ours_alike_and_fused_stand_over_every_server_after_the_ladder() {
    let ours = ["agent-kv", "instance-shared", "fused"];
    let (envelope, traces) = beside(&ours, &[SHARED, AGENT]);
    let summary = summary(&envelope, &traces).unwrap();
    let expected = [
        "fused/instance-shared",
        "fused/agent-kv",
        "instance-shared/llama-server:shared",
        "fused/llama-server:shared",
        "agent-kv/llama-server:agent",
        "fused/llama-server:agent",
    ];
    assert_eq!(rungs(&summary), expected);
    let ratio = last(&summary);
    assert_eq!(ratio.prefill_tokens, Some(1.057_692)); // 220 over 100 + 3 * 3 * 12
    assert_eq!(
        (ratio.pairs, ratio.wall, ratio.prefill),
        (5, Some(3.0), None)
    );
    assert_eq!(ratio.verdict.as_deref(), Some("FASTER"));
    assert_eq!(ratio.withheld, None);
    assert_eq!(summary.verdict.as_deref(), Some("PARITY")); // of the ladder's own pair
}

#[test]
fn a_score_says_how_many_tokens_are_the_best_and_where_the_first_is_not() {
    let (envelope, mut traces) = beside(&["fused"], &[SHARED]);
    let margins: Margins = &|agent, turn| match (agent, turn) {
        (1, 2) => 70_000,
        (2, 0) => 100_000,
        _ => 0,
    };
    traces[5].score = Some(score(&envelope, SHARED, 2, margins));
    let summary = summary(&envelope, &traces).unwrap();
    let score = summary.arms[SHARED].score.as_ref().unwrap();
    assert_eq!((score.tokens, score.exact_tokens), (180, 178));
    assert_eq!(
        (score.exact_share.to_string(), score.worst_micronats),
        ("0.988889".to_owned(), 100_000)
    );
    let first = ScoredToken {
        rep: 2,
        agent: 1,
        turn: 2,
        position: 2,
        micronats: 70_000,
    };
    assert_eq!(score.first_divergence, Some(first));
    assert_eq!(score.beyond_margin, None); // a tenth of a nat is not beyond a tenth of a nat
    assert_eq!(last(&summary).withheld, None);
}

#[test]
fn a_token_beyond_the_envelopes_margin_withholds_the_ratio_and_is_named() {
    let (mut envelope, mut traces) = beside(&["fused"], &[SHARED]);
    traces[5].score = Some(score(&envelope, SHARED, 2, &|agent, turn| {
        u64::from((agent, turn) == (1, 3)) * 100_001
    }));
    let withheld = summary(&envelope, &traces).unwrap();
    let reason = "outside the margin: llama-server:shared-2, agent 1, turn 3, output token 2, 100001 micronats";
    let ratio = last(&withheld);
    assert_eq!(ratio.withheld.as_deref(), Some(reason));
    assert_eq!((ratio.wall, &ratio.verdict), (None, &None));
    assert!(withheld.complete && ratio.prefill_tokens.is_some());
    envelope.run.margin_millinats = Some(101);
    let within = summary(&envelope, &traces).unwrap();
    assert_eq!(last(&within).withheld, None);
}

#[test]
fn an_arm_of_which_one_repetition_has_no_score_is_not_scored() {
    let unended = |trace: &mut Fabricated| {
        let message = "out of memory".to_owned();
        let score = trace.score.as_mut().unwrap();
        score.last_mut().unwrap().body = Body::Error { message };
    };
    for damage in [unended as fn(&mut Fabricated), |it| it.score = None] {
        let (envelope, mut traces) = beside(&["fused"], &[SHARED]);
        damage(&mut traces[9]);
        let summary = summary(&envelope, &traces).unwrap();
        assert!(summary.complete && summary.arms[SHARED].score.is_none());
        let withheld = last(&summary).withheld.as_deref();
        assert_eq!(withheld, Some("not scored: llama-server:shared"));
    }
}

#[test]
fn answers_of_ours_that_differ_withhold_ratios_over_servers_too() {
    let (envelope, mut traces) = beside(&["instance-shared", "fused"], &[SHARED]);
    finish_of(&mut traces[1], "a1-t3").0[0] += 1;
    let summary = summary(&envelope, &traces).unwrap();
    assert_eq!(summary.ratios.len(), 3);
    for ratio in summary.ratios {
        assert!(ratio.withheld.unwrap().starts_with("answers differ"));
    }
}

#[test]
fn a_server_of_fewer_turns_compares_in_the_tokens_of_those() {
    let mut envelope = envelope(&["fused", SHARED], 5);
    envelope.run.arm_turns.insert(SHARED.to_owned(), 2);
    let traces: Vec<Fabricated> = (0..5)
        .flat_map(|rep| {
            let ours = fabricate(&envelope, "fused", rep, 1000);
            [ours, answered(&envelope, SHARED, rep, 3000)]
        })
        .collect();
    let summary = summary(&envelope, &traces).unwrap();
    let ratio = last(&summary);
    assert_eq!(ratio.prefill_tokens, Some(1.176_471)); // 100 + 6 * 10 over 100 + 3 * 12
    let reason = "unequal turns: fused 4, llama-server:shared 2";
    assert_eq!(ratio.withheld.as_deref(), Some(reason));
    assert_eq!(summary.identity.requests, 12);
}

#[test]
fn a_server_that_never_starts_keeps_its_record_and_stops_nobody() {
    let (envelope, mut traces) = beside(&["instance-shared", "fused"], &[SHARED]);
    let message = "its port is taken".to_owned();
    for trace in traces.iter_mut().filter(|trace| trace.arm == SHARED) {
        trace.lines.truncate(2);
        trace.lines[1].body = Body::Error {
            message: message.clone(),
        };
        trace.score = None;
    }
    traces.rotate_right(1); // the server comes first
    let summary = summary(&envelope, &traces).unwrap();
    let arm = &summary.arms[SHARED];
    assert_eq!((arm.error.as_ref(), arm.completed), (Some(&message), 0));
    assert!(arm.samples.is_empty() && arm.score.is_none() && arm.latencies.is_none());
    assert_eq!((arm.wall_ns, arm.decode_tokens), (None, None));
    assert_eq!(arm.server.as_ref().unwrap().settings, None);
    assert!(!summary.complete && summary.identity.equal);
    assert_eq!(rungs(&summary), ["fused/instance-shared"]);
}

#[test]
fn server_traces_that_are_no_evidence_are_refused() {
    type Damage = fn(&mut Fabricated);
    let damages: [(Damage, &str); 10] = [
        (
            |it| drop(it.lines.remove(0)),
            "first line is no `begin_server`",
        ),
        (|it| it.rep = 1, "`begin_server` says llama-server:shared-0"),
        (|it| drop(it.lines.pop()), "no `end_server` or `error`"),
        (|it| drop(it.lines.remove(1)), "never `ready`"),
        (|it| drop(it.lines.drain(3..5)), "answers 11 of 12 requests"),
        (|it| drop(it.lines.remove(3)), "answered before it was made"),
        (
            |it| it.lines.insert(5, it.lines[4].clone()),
            "answered twice",
        ),
        (
            |it| drop(it.score.as_mut().unwrap().pop()),
            "no `end_score` or `error`",
        ),
        (
            |it| drop(it.score.as_mut().unwrap().remove(3)),
            "it has 11 of 12 answers",
        ),
        (
            |it| {
                if let Body::Score(score) = &mut it.score.as_mut().unwrap()[3].body {
                    score.margins_micronats.pop();
                }
            },
            "another number of tokens",
        ),
    ];
    for (damage, part) in damages {
        let (envelope, mut traces) = beside(&["fused"], &[SHARED]);
        damage(&mut traces[1]);
        let error = summary(&envelope, &traces).unwrap_err().to_string();
        assert!(error.contains(part), "`{part}` not in: {error}");
        assert!(error.contains("llama-server.shared-"), "{error}");
    }
}

#[test]
fn a_server_of_another_model_is_not_summarised_beside_ours() {
    let (envelope, mut traces) = beside(&["fused"], &[SHARED]);
    traces[3].score = None;
    if let Body::BeginServer(begin) = &mut traces[3].lines[0].body {
        begin.model_sha256.push('x');
    }
    let error = summary(&envelope, &traces).unwrap_err().to_string();
    assert!(
        error.contains("its model is not that of fused-0"),
        "{error}"
    );
}

#[test]
fn an_envelope_of_other_engines_alone_is_refused_and_told_what_to_add() {
    let overrides = Overrides {
        arms: vec![SHARED.to_owned(), AGENT.to_owned()],
        ..Overrides::default()
    };
    let smoke = Envelope::named("smoke").unwrap();
    let error = smoke.resolve(&overrides, 2).unwrap_err().to_string();
    assert!(
        error.contains("run.arms") && error.contains("add fused"),
        "{error}"
    );
}
