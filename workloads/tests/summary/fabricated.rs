//! Traces made up line by line, and their summary.
//!
//! Not here: traces of other engines (`servers`).

use workloads::arm::named;
use workloads::envelope::{Envelope, Overrides, ResolvedEnvelope};
use workloads::oracle::{Shape, counts};
use workloads::summary::{ArmTrace, Summary, summarise};
use workloads::trace::{Body, Line, Settings};

pub(crate) struct Fabricated {
    pub(crate) arm: String,
    pub(crate) rep: usize,
    pub(crate) lines: Vec<Line>,
    pub(crate) score: Option<Vec<Line>>,
}

pub(crate) fn envelope(arms: &[&str], reps: usize) -> ResolvedEnvelope {
    let overrides = Overrides {
        arms: arms.iter().map(|&arm| arm.to_owned()).collect(),
        reps: Some(reps),
        ..Overrides::default()
    };
    Envelope::named("smoke")
        .unwrap()
        .resolve(&overrides, 2)
        .unwrap()
}

fn begin(arm: &str, rep: usize) -> Body {
    Body::Begin {
        schema: "fak.trace/1".to_owned(),
        envelope: "smoke".to_owned(),
        envelope_sha256: "e".to_owned(),
        cell: None,
        arm: arm.to_owned(),
        rep,
        model_sha256: "m".to_owned(),
        tokenizer_sha256: None,
        settings: Settings {
            cache: "none".to_owned(),
            batched: false,
            shared_attention: false,
            mode: "exact".to_owned(),
            kernels: "scalar".to_owned(),
            threads: 2,
            kv_dtype: "f32".to_owned(),
            page_positions: 64,
            chunk_tokens: 256,
            eviction: "lru".to_owned(),
            admission: None,
            kv_pages: 4096,
            greedy: true,
        },
    }
}

/// How a request is called.
pub(crate) fn id(agent: usize, turn: usize) -> String {
    format!("a{agent}-t{turn}")
}

/// A request of two tokens.
pub(crate) fn request(agent: usize, turn: usize) -> Body {
    Body::Request {
        id: id(agent, turn),
        session: format!("a{agent}"),
        agent,
        turn,
        worker: 0,
        base: None,
        keep: 0,
        append: vec![],
        prompt_len: 0,
        prompt_sha256: String::new(),
        decode_max: 2,
        ignore_eos: true,
        due_ns: None,
    }
}

/// The lines of one request; agent 0 computes what its arm must in this turn, for all.
fn lines_of(arm: &str, shape: Shape, agent: usize, turn: usize) -> [Body; 3] {
    let until = |turns: usize| {
        let turns = turns as u64;
        let counts = counts(named(arm).unwrap(), &Shape { turns, ..shape });
        counts.unwrap().prefill_tokens_computed as usize
    };
    let prefill = Body::Prefill {
        request: id(agent, turn),
        computed: if agent == 0 {
            until(turn + 1) - until(turn)
        } else {
            0
        },
        carried: 0,
        replayed: 0,
        chunks: 1,
    };
    let finish = Body::Finish {
        request: id(agent, turn),
        ids: vec![agent as u32, turn as u32],
        token_t_ns: vec![1, 2],
        batch: vec![1, 1],
        reason: "length".to_owned(),
        logits_sha256: format!("l{agent}{turn}"),
    };
    [request(agent, turn), prefill, finish]
}

/// A trace of `smoke` that took `wall_ns`, its requests not in (agent, turn) order.
pub(crate) fn fabricate(
    envelope: &ResolvedEnvelope,
    arm: &str,
    rep: usize,
    wall_ns: u64,
) -> Fabricated {
    let workload = envelope.workload_of(arm);
    let shape = workload.shape();
    let counts = counts(named(arm).unwrap(), &shape).unwrap();
    let mut bodies = vec![begin(arm, rep)];
    for turn in 0..workload.turns {
        for agent in (0..workload.agents).rev() {
            bodies.extend(lines_of(arm, shape, agent, turn));
        }
    }
    bodies.push(Body::End {
        requests: envelope.requests_of(arm),
        prefill_tokens_computed: counts.prefill_tokens_computed,
        prefill_tokens_logical: counts.prefill_tokens_logical,
        prefix_tokens_hit: counts.prefix_tokens_hit,
        decode_tokens: counts.decode_tokens,
        carried_tokens: counts.carried_tokens,
        replayed_tokens: counts.replayed_tokens,
        load_ns: 1,
        warmup_ns: 2,
        wall_ns,
        prefill_ns: wall_ns / 2,
        decode_ns: wall_ns / 4,
        kv_bytes_peak: 1000 + rep as u64,
        rss_bytes_peak: (rep == 1).then_some(77),
    });
    let lines = lines(bodies);
    Fabricated {
        arm: arm.to_owned(),
        rep,
        lines,
        score: None,
    }
}

/// Lines that say this, unchained.
pub(crate) fn lines(bodies: Vec<Body>) -> Vec<Line> {
    let line = |(seq, body)| Line {
        seq: seq as u64,
        prev: String::new(),
        t_ns: 0,
        body,
    };
    bodies.into_iter().enumerate().map(line).collect()
}

/// `instance-shared` and `fused` five times each, the second twice as fast.
pub(crate) fn pair() -> (ResolvedEnvelope, Vec<Fabricated>) {
    let envelope = envelope(&["instance-shared", "fused"], 5);
    let traces = (0..5)
        .flat_map(|rep| [("instance-shared", rep, 2000), ("fused", rep, 1000)])
        .map(|(arm, rep, wall_ns)| fabricate(&envelope, arm, rep, wall_ns + rep as u64))
        .collect();
    (envelope, traces)
}

pub(crate) fn summary(
    envelope: &ResolvedEnvelope,
    traces: &[Fabricated],
) -> Result<Summary, workloads::Error> {
    let traces: Vec<ArmTrace<'_>> = traces
        .iter()
        .map(|trace| ArmTrace {
            arm: &trace.arm,
            rep: trace.rep,
            lines: &trace.lines,
            score: trace.score.as_deref(),
        })
        .collect();
    summarise(envelope, &traces)
}

/// The `finish` of the given request.
pub(crate) fn finish_of<'a>(
    trace: &'a mut Fabricated,
    id: &str,
) -> (&'a mut Vec<u32>, &'a mut String) {
    trace
        .lines
        .iter_mut()
        .find_map(|line| match &mut line.body {
            Body::Finish {
                request,
                ids,
                logits_sha256,
                ..
            } if request == id => Some((ids, logits_sha256)),
            _ => None,
        })
        .unwrap()
}
