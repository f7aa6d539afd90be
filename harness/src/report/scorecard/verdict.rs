//! The rule: what evidence allows to be said of a dimension. Verdicts are computed here and typed in nowhere.
//!
//! The statistics are those of every comparison of this project (DESIGN, "Statistics"): five pairs at least, and the whole
//! interval on one side of the margin. Not here: how a value was found (`metrics`).

use serde::Serialize;
use workloads::statistics::Interval;

use super::catalogue::{Class, Dimension, Kind};

/// Pairs that a verdict needs.
const PAIRS: usize = 5;
/// What counts as different, as a ratio.
const MARGIN: f64 = 0.05;

/// What may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// We beat the other side, noise included.
    Lead,
    /// Within the margin, or equal to a bound.
    Parity,
    /// Measured and behind.
    Trails,
    /// No admissible evidence, whatever the reason.
    NoClaim,
}

impl Verdict {
    /// All of them, best first.
    pub(super) const ALL: [Self; 4] = [Self::Lead, Self::Parity, Self::Trails, Self::NoClaim];

    /// The word of pages.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::Parity => "parity",
            Self::Trails => "trails",
            Self::NoClaim => "no-claim",
        }
    }

    /// What it adds to the standing.
    pub(super) fn points(self) -> f64 {
        match self {
            Self::Lead => 1.0,
            Self::Parity => 0.6,
            Self::Trails => 0.2,
            Self::NoClaim => 0.0,
        }
    }
}

/// How sure a value is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Noise {
    /// A count or digest that every repetition gives alike.
    Exact,
    /// So many interleaved pairs, with the interval of the value where there are enough.
    Pairs {
        n: usize,
        #[serde(skip)]
        interval: Option<Interval>,
    },
}

/// What was found of a dimension.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Our value, in the dimension's unit.
    pub(super) ours: f64,
    /// The other side's, measured beside it or following from our own inputs; none where the printed figure is used.
    pub(super) other: Option<f64>,
    pub(super) noise: Noise,
    /// What is unlike on the two sides: any of it forbids a verdict.
    pub(super) differs: Vec<String>,
    /// Engines that the other side should have had and did not: ours cannot be better than it was found to be.
    pub(super) missing_peers: Vec<String>,
    /// Whether one script counted on both sides.
    pub(super) one_script: bool,
}

impl Measured {
    /// A value without noise, counted on both sides by one script.
    pub(super) fn exact(ours: f64, other: Option<f64>) -> Self {
        Self {
            ours,
            other,
            noise: Noise::Exact,
            differs: Vec::new(),
            missing_peers: Vec::new(),
            one_script: true,
        }
    }
}

/// A verdict with its reason.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruling {
    pub(super) verdict: Verdict,
    /// Ours over the other side, or where there is an absolute margin ours less it; oriented so that more is better.
    pub(super) value: Option<f64>,
    pub(super) interval: Option<(f64, f64)>,
    /// Why there is no verdict; empty where there is one.
    pub(super) reason: String,
}

impl Ruling {
    /// No verdict, for `reason`.
    pub(super) fn none(reason: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::NoClaim,
            value: None,
            interval: None,
            reason: reason.into(),
        }
    }
}

/// Judges `measured`; `bar` stands for the printed figure where evidence is of the narrower metric.
pub(super) fn rule(row: &Dimension, measured: &Measured, bar: Option<f64>) -> Ruling {
    if row.kind == Kind::External {
        return Ruling::none("decided by a checkpoint or hardware that is not here");
    }
    let printed = if row.falsifiable { row.sota_value } else { bar };
    let other = match row.class {
        Class::Published if row.portable => printed,
        // A bound that is a number of things is the one the catalogue has.
        Class::Ceiling | Class::Oracle => measured.other.or(printed),
        Class::TunedPeer | Class::Published => measured.other,
    };
    let Some(other) = other else {
        return Ruling::none("nothing stands on the other side");
    };
    let (value, interval) = oriented(row, measured, other);
    let mut ruling = Ruling {
        verdict: Verdict::NoClaim,
        value: Some(value),
        interval,
        reason: String::new(),
    };
    if !measured.differs.is_empty() {
        ruling.reason = format!("not alike on both sides: {}", measured.differs.join("; "));
        return ruling;
    }
    let found = noise_rule(row, measured, value, interval);
    let found = match (found, row.class, row.kind) {
        (Ok(Verdict::Lead), Class::Ceiling | Class::Oracle, _) => Ok(Verdict::Parity),
        (Ok(Verdict::Lead), _, Kind::Coverage | Kind::Structural) if !measured.one_script => {
            Ok(Verdict::Parity)
        }
        (found, ..) => found,
    };
    match found {
        Ok(Verdict::Lead | Verdict::Parity) if !measured.missing_peers.is_empty() => {
            // The denominator is the best of several: with one of them missing, the ratio is an upper bound.
            ruling.reason = format!(
                "not run: {}, and the bar is the best of all",
                measured.missing_peers.join(", ")
            );
        }
        Ok(verdict) => ruling.verdict = verdict,
        Err(reason) => ruling.reason = reason,
    }
    ruling
}

/// The value that is judged and its interval, turned so that more is better.
fn oriented(row: &Dimension, measured: &Measured, other: f64) -> (f64, Option<(f64, f64)>) {
    let turn = |ours: f64| match (row.parity_abs, row.higher_is_better) {
        (Some(_), true) => ours - other,
        (Some(_), false) => other - ours,
        (None, true) => ours / other,
        (None, false) => other / ours,
    };
    let value = turn(measured.ours);
    let interval = match measured.noise {
        Noise::Exact => Some((value, value)),
        Noise::Pairs { interval, .. } => interval.map(|it| {
            let (a, b) = (turn(it.low), turn(it.high));
            (a.min(b), a.max(b))
        }),
    };
    (value, interval)
}

fn noise_rule(
    row: &Dimension,
    measured: &Measured,
    value: f64,
    interval: Option<(f64, f64)>,
) -> Result<Verdict, String> {
    if !value.is_finite() {
        return Err("the other side is nothing, so there is no ratio".to_owned());
    }
    if let Noise::Pairs { n, .. } = measured.noise
        && n < PAIRS
    {
        return Err(format!("{n} of the {PAIRS} pairs that a verdict needs"));
    }
    let Some((low, high)) = interval else {
        return Err("no interval".to_owned());
    };
    let (below, above) = match row.parity_abs {
        Some(margin) => (-margin, margin),
        None => (1.0 - MARGIN, 1.0 + MARGIN),
    };
    if low > above {
        Ok(Verdict::Lead)
    } else if high < below {
        Ok(Verdict::Trails)
    } else if low >= below && high <= above {
        Ok(Verdict::Parity)
    } else {
        Err("the interval reaches over the margin".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::Catalogue;
    use super::*;

    fn row(id: &str) -> Dimension {
        let text = include_str!("../../../../reports/scorecard/dimensions.toml");
        let mut rows = Catalogue::parse(text).unwrap().dimensions.into_iter();
        rows.find(|row| row.id == id).unwrap()
    }

    fn pairs(ours: f64, low: f64, high: f64) -> Measured {
        let interval = Some(Interval { low, high });
        Measured {
            ours,
            other: Some(1.0),
            noise: Noise::Pairs { n: 5, interval },
            differs: Vec::new(),
            missing_peers: Vec::new(),
            one_script: false,
        }
    }

    fn exact(ours: f64, other: Option<f64>) -> Measured {
        Measured {
            other,
            noise: Noise::Exact,
            ..pairs(ours, ours, ours)
        }
    }

    #[test]
    fn a_peer_is_led_tied_or_trailed_by_the_whole_interval_alone() {
        let row = row("cross-agent-fleet-serving");
        for (low, high, verdict) in [
            (1.06_f64, 4.0, Verdict::Lead),
            (1.05, 4.0, Verdict::NoClaim),
            (0.95, 1.05, Verdict::Parity),
            (0.94, 1.05, Verdict::NoClaim),
            (0.2, 0.949, Verdict::Trails),
            (0.2, 0.95, Verdict::NoClaim),
            (0.2, 4.0, Verdict::NoClaim),
        ] {
            let found = rule(&row, &pairs(low.midpoint(high), low, high), None);
            assert_eq!(found.verdict, verdict, "{low} to {high}: {found:?}");
            assert_eq!(found.reason.is_empty(), verdict != Verdict::NoClaim);
        }
        let mut few = pairs(4.0, 3.0, 5.0);
        few.noise = Noise::Pairs {
            n: 4,
            interval: None,
        };
        assert!(rule(&row, &few, None).reason.contains("4 of the 5"));
    }

    #[test]
    fn what_differs_forbids_any_verdict_and_a_missing_peer_all_but_a_loss() {
        let row = row("single-stream-decode-cpu");
        let mut unlike = pairs(2.0, 1.9, 2.1);
        unlike
            .differs
            .push("its cache holds f16, ours q8_0".to_owned());
        let found = rule(&row, &unlike, None);
        assert_eq!((found.verdict, found.value), (Verdict::NoClaim, Some(2.0)));
        for (low, high, verdict) in [
            (1.9, 2.1, Verdict::NoClaim),
            (0.99, 1.01, Verdict::NoClaim),
            (0.4, 0.5, Verdict::Trails),
        ] {
            let mut short = pairs(low, low, high);
            short.missing_peers.push("ik_llama.cpp".to_owned());
            assert_eq!(rule(&row, &short, None).verdict, verdict);
        }
    }

    #[test]
    fn bounds_are_never_led_and_counts_only_by_one_script() {
        let ceiling = row("marginal-reuse-over-warm-cache");
        assert_eq!(
            rule(&ceiling, &exact(1.2, Some(1.0)), None).verdict,
            Verdict::Parity
        );
        assert_eq!(
            rule(&ceiling, &exact(0.9, Some(1.0)), None).verdict,
            Verdict::Trails
        );
        let counts = row("hardware-backend-breadth");
        assert_eq!(
            rule(&counts, &exact(20.0, None), None).verdict,
            Verdict::Parity
        );
        let mut scripted = exact(20.0, None);
        scripted.one_script = true;
        assert_eq!(rule(&counts, &scripted, None).verdict, Verdict::Lead);
    }

    #[test]
    fn absolute_margins_and_lower_is_better_turn_the_right_way() {
        // Less is better, and the margin is two points.
        let overhead = row("deterministic-bitexact-inference");
        for (ours, verdict) in [
            (0.0, Verdict::Lead),
            (33.0, Verdict::Parity),
            (40.0, Verdict::Trails),
        ] {
            assert_eq!(rule(&overhead, &exact(ours, None), None).verdict, verdict);
        }
        // Less is better, as a ratio.
        let amplification = row("cross-request-prefix-cache-reuse");
        assert_eq!(
            rule(&amplification, &exact(1.0, None), None).verdict,
            Verdict::Lead
        );
        assert_eq!(
            rule(&amplification, &exact(8.0, None), None).verdict,
            Verdict::Trails
        );
        let kl = row("numerical-correctness-error-metric");
        assert_eq!(
            rule(&kl, &exact(1e-6, Some(0.0)), None).verdict,
            Verdict::Parity
        );
        assert_eq!(
            rule(&kl, &exact(1e-2, Some(0.0)), None).verdict,
            Verdict::Trails
        );
    }

    #[test]
    fn nothing_is_said_without_another_side_or_of_what_is_not_here() {
        let unported = row("non-prefix-kv-reuse-cacheblend");
        assert_eq!(
            rule(&unported, &exact(9.0, None), None).verdict,
            Verdict::NoClaim
        );
        let external = row("absolute-tokens-per-second-mlperf");
        assert_eq!(
            rule(&external, &exact(9e9, Some(1.0)), None).verdict,
            Verdict::NoClaim
        );
        let narrower = row("automatic-prefix-caching-hit-rate");
        assert_eq!(
            rule(&narrower, &exact(0.9, None), None).verdict,
            Verdict::NoClaim
        );
        assert_eq!(
            rule(&narrower, &exact(0.9, None), Some(0.96)).verdict,
            Verdict::Trails
        );
    }
}
