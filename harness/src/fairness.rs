//! What must be told of another engine beside its times: how it was started and set, what its cache was seen to do, how
//! near its answers are to our model's, and in what it was unlike ours.
//!
//! Not here: any figure that is not in the run record or its traces.

use std::collections::BTreeMap;

use workloads::record::{ArmRecord, EffectiveRecord, RunRecord, ScoredToken};
use workloads::trace::server::{Probe, ServerSettings};
use workloads::trace::{Body, Line};

use crate::table::grouped;

/// What is known of a run's servers beyond its record.
#[derive(Debug, Default)]
pub struct Receipts {
    /// By arm, the probes of the first repetition that has some.
    probes: BTreeMap<String, Vec<Probe>>,
    /// How far below the best a token of theirs may be, in thousandths of a nat.
    margin_millinats: u64,
}

impl Receipts {
    /// Gathers the probes of `traces`, in the order of repetitions.
    pub fn new<'a>(
        margin_millinats: u64,
        traces: impl Iterator<Item = (&'a str, &'a [Line])>,
    ) -> Self {
        let mut probes = BTreeMap::new();
        for (arm, lines) in traces {
            let own = lines.iter().filter_map(|line| match &line.body {
                Body::Probe(probe) => Some(probe.clone()),
                _ => None,
            });
            let own: Vec<Probe> = own.collect();
            if !own.is_empty() {
                probes.entry(arm.to_owned()).or_insert(own);
            }
        }
        Self {
            probes,
            margin_millinats,
        }
    }

    /// Receipt and score of every server of `record`, as lines under its name.
    pub fn lines(&self, record: &RunRecord) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, arm) in servers(record) {
            let probes = self.probes.get(name).map_or(&[][..], Vec::as_slice);
            let own = receipt(arm, probes).into_iter();
            let score = score_words(name, arm, self.margin_millinats);
            lines.push(name.to_owned());
            lines.extend(own.chain([score]).map(|line| format!("  {line}")));
        }
        lines
    }
}

/// The arms that other engines answered, in the order of the arm table.
pub fn servers(record: &RunRecord) -> impl Iterator<Item = (&'static str, &ArmRecord)> {
    let known = workloads::arm::SERVERS.iter();
    known.filter_map(|arm| Some((arm.name, record.arms.get(arm.name)?)))
}

/// The fairness receipt of one arm, a line each.
fn receipt(arm: &ArmRecord, probes: &[Probe]) -> Vec<String> {
    let Some(server) = &arm.server else {
        return Vec::new();
    };
    let program = &server.program;
    let version = program.version.as_deref().unwrap_or("version unknown");
    let digest = program.sha256.as_deref().map_or_else(
        || "no file".to_owned(),
        |sha256| format!("sha256 {}", sha256.chars().take(16).collect::<String>()),
    );
    let mut lines = vec![
        format!("{}, {version}, {digest}", program.name),
        match program.arguments.as_slice() {
            [] => "ran before: how it was started, and what memory it takes, is unknown".to_owned(),
            arguments => format!("started with  {}", arguments.join(" ")),
        },
    ];
    lines.push(match &server.settings {
        Some(settings) => format!("says of itself  {}", settings_words(settings)),
        None => "says nothing of itself: it never answered".to_owned(),
    });
    if let Some(build) = server.settings.as_ref().and_then(|it| it.build.as_ref()) {
        lines.push(format!("its build  {build}"));
    }
    if let Some(cpu) = server.settings.as_ref().and_then(|it| it.cpu.as_ref()) {
        lines.push(format!("its CPU features  {cpu}"));
    }
    lines.extend(probes.iter().map(|probe| {
        let found = known(probe.cached, "an unknown number");
        let what = match probe.name.as_str() {
            "repeat" => "a prompt it had just been given",
            _ => "the same with another first id",
        };
        format!(
            "probe  of {what}, {} tokens, it found {found}",
            probe.prompt_tokens
        )
    }));
    lines
}

fn known<T: ToString>(value: Option<T>, unknown: &str) -> String {
    value.map_or_else(|| unknown.to_owned(), |value| value.to_string())
}

fn settings_words(settings: &ServerSettings) -> String {
    let switch = |on: Option<bool>| known(on.map(|on| if on { "on" } else { "off" }), "?");
    format!(
        "threads {}, slots {} of {} positions, flash attention {}, one cache for all slots {}, cache type {}",
        known(settings.threads, "?"),
        known(settings.slots, "?"),
        known(settings.slot_positions, "?"),
        switch(settings.flash_attention),
        switch(settings.kv_unified),
        known(settings.kv_dtype.as_ref(), "?"),
    )
}

/// In what another engine was unlike ours, or may have been, as far as settings have a counterpart.
pub fn asymmetries(arm: &ArmRecord, ours: &EffectiveRecord) -> Vec<String> {
    let Some(settings) = arm.server.as_ref().and_then(|it| it.settings.as_ref()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if let Some(threads) = settings.threads.filter(|it| *it != ours.threads) {
        found.push(format!("it has {threads} threads, ours {}", ours.threads));
    }
    if let Some(kv_dtype) = settings
        .kv_dtype
        .as_ref()
        .filter(|it| **it != ours.kv_dtype)
    {
        let own = &ours.kv_dtype;
        found.push(format!("its cache holds {kv_dtype}, ours {own}"));
    }
    let silent: Vec<&str> = [
        ("threads", settings.threads.is_none()),
        ("slots", settings.slots.is_none()),
        ("positions of a slot", settings.slot_positions.is_none()),
        ("flash attention", settings.flash_attention.is_none()),
        ("whether slots share a cache", settings.kv_unified.is_none()),
        ("cache type", settings.kv_dtype.is_none()),
    ]
    .into_iter()
    .filter_map(|(name, is_unknown)| is_unknown.then_some(name))
    .collect();
    if !silent.is_empty() {
        found.push(format!("it does not say: {}", silent.join(", ")));
    }
    if arm.prefix_tokens_hit.is_none() && arm.error.is_none() {
        found.push(
            "what it found in its cache is unknown, or not the same in all repetitions".to_owned(),
        );
    }
    found
}

/// How near the answers are to our model's own choice; `margin_millinats` is what the envelope allows.
fn score_words(name: &str, arm: &ArmRecord, margin_millinats: u64) -> String {
    let Some(score) = &arm.score else {
        return format!(
            "NOT SCORED: {}",
            if arm.completed == 0 {
                "it has no answers".to_owned()
            } else {
                let file = name.replace(':', ".");
                format!("trace/{file}-N.score.jsonl of some repetition did not end well")
            }
        );
    };
    let first = score.first_divergence.as_ref().map_or_else(
        || "none is another".to_owned(),
        |token| format!("the first other one at {}", place(token)),
    );
    let verdict = match &score.beyond_margin {
        Some(token) => format!("; OUTSIDE THE MARGIN at {}", place(token)),
        None => String::new(),
    };
    format!(
        "score  {:.4} % of {} tokens are what our model chooses in mode exact, {first}; the worst is {} nats below the \
         best, {} are allowed{verdict}",
        score.exact_share * 100.0,
        grouped(score.tokens),
        nats(score.worst_micronats),
        nats(margin_millinats.saturating_mul(1000)),
    )
}

fn place(token: &ScoredToken) -> String {
    format!(
        "repetition {}, agent {}, turn {}, token {} ({} nats)",
        token.rep,
        token.agent,
        token.turn,
        token.position,
        nats(token.micronats)
    )
}

/// Millionths of a nat, as nats to four decimals; what is not nothing is not shown as nothing.
fn nats(micronats: u64) -> String {
    match micronats {
        1..50 => format!("{:.6}", micronats as f64 / 1e6),
        _ => format!("{:.4}", micronats as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use workloads::record::{ScoreRecord, ServerRecord};
    use workloads::trace::Program;

    use super::*;

    fn arm() -> ArmRecord {
        let run = "../results/smoke/2026-11-29-x86_64-avx512-2c-3/run.json";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(run);
        let text = std::fs::read_to_string(path).unwrap();
        let record: RunRecord = serde_json::from_str(&text).unwrap();
        record.arms["fused"].clone()
    }

    fn served(settings: Option<ServerSettings>) -> ArmRecord {
        let program = Program {
            name: "llama-server".to_owned(),
            sha256: Some("0123456789abcdef0123".to_owned()),
            libraries_sha256: None,
            version: Some("version: 1".to_owned()),
            arguments: ["-m", "FILE", "--port", "PORT"].map(str::to_owned).to_vec(),
        };
        ArmRecord {
            server: Some(ServerRecord { program, settings }),
            ..arm()
        }
    }

    fn ours() -> EffectiveRecord {
        EffectiveRecord {
            mode: "exact".to_owned(),
            kernels: "scalar".to_owned(),
            threads: 2,
            kv_dtype: "f32".to_owned(),
        }
    }

    fn settings() -> ServerSettings {
        ServerSettings {
            build: Some("b1".to_owned()),
            cpu: None,
            threads: Some(2),
            slots: Some(5),
            slot_positions: Some(4096),
            flash_attention: Some(false),
            kv_unified: Some(true),
            kv_dtype: Some("f16".to_owned()),
        }
    }

    #[test]
    fn a_receipt_has_the_program_its_settings_and_what_its_cache_did() {
        let probe = |name: &str, cached| Probe {
            name: name.to_owned(),
            prompt_tokens: 64,
            cached,
            computed: None,
        };
        let probes = [probe("repeat", Some(63)), probe("salted", None)];
        let text = receipt(&served(Some(settings())), &probes).join("\n");
        for part in [
            "llama-server, version: 1, sha256 0123456789abcdef\n",
            "-m FILE --port PORT",
            "threads 2, slots 5 of 4096 positions, flash attention off, one cache for all slots on, cache type f16",
            "its build  b1",
            "just been given, 64 tokens, it found 63",
            "another first id, 64 tokens, it found an unknown number",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
        assert!(receipt(&arm(), &[]).is_empty());
        assert!(receipt(&served(None), &[])[2].contains("never answered"));
    }

    #[test]
    fn what_differs_and_what_is_not_said_is_an_asymmetry_and_nothing_else() {
        let mut alike = settings();
        alike.kv_dtype = Some("f32".to_owned());
        assert!(asymmetries(&served(Some(alike)), &ours()).is_empty());
        let unlike = ServerSettings {
            threads: Some(4),
            slots: None,
            ..settings()
        };
        let found = asymmetries(&served(Some(unlike)), &ours());
        let expected = [
            "it has 4 threads, ours 2",
            "its cache holds f16, ours f32",
            "it does not say: slots",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_score_says_share_first_divergence_worst_and_what_is_allowed() {
        let token = |micronats| ScoredToken {
            rep: 1,
            agent: 2,
            turn: 3,
            position: 4,
            micronats,
        };
        let mut scored = served(None);
        scored.score = Some(ScoreRecord {
            tokens: 36_000,
            exact_tokens: 35_999,
            exact_share: 0.999_972,
            worst_micronats: 12_345,
            first_divergence: Some(token(7)),
            beyond_margin: None,
        });
        let words = score_words("llama-server:shared", &scored, 100);
        for part in [
            "99.9972 % of 36 000 tokens",
            "the first other one at repetition 1, agent 2, turn 3, token 4 (0.000007 nats)",
            "the worst is 0.0123 nats below the best, 0.1000 are allowed",
        ] {
            assert!(words.contains(part), "no {part:?} in: {words}");
        }
        assert!(!words.contains("OUTSIDE"));
        if let Some(score) = &mut scored.score {
            score.beyond_margin = Some(token(200_000));
        }
        let words = score_words("llama-server:shared", &scored, 100);
        assert!(
            words.contains("OUTSIDE THE MARGIN at repetition 1"),
            "{words}"
        );
        scored.score = None;
        let words = score_words("llama-server:shared", &scored, 100);
        assert!(
            words.contains("trace/llama-server.shared-N.score.jsonl"),
            "{words}"
        );
    }
}
