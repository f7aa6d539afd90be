//! Axes of plots: which values have a tick, what stands beside it, where on the paper it is. Not here: drawing (`plots`).

/// What is plotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds.
    Time,
    Bytes,
    /// Tokens a second.
    Rate,
    Pages,
}

/// How many ticks an axis has at most, and at least if it is to count by powers.
const TICKS: f64 = 6.0;
const POWERS_MIN: usize = 3;
/// A greatest value so many times the least is shown by powers.
const WIDE: f64 = 20.0;

/// A scale with its ticks.
#[derive(Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    by_powers: bool,
    /// Values and their labels.
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) title: &'static str,
}

impl Axis {
    /// Where a value stands on `width` pixels.
    pub(super) fn place(&self, value: f64, width: i32) -> i32 {
        let along = |value: f64| {
            if self.by_powers {
                value.max(self.low).ln()
            } else {
                value
            }
        };
        let share = (along(value) - along(self.low)) / (along(self.high) - along(self.low));
        (share.clamp(0.0, 1.0) * f64::from(width)).round() as i32
    }
}

impl Unit {
    /// How many of it make the unit that suits values as large as this, and what that is called.
    fn suiting(self, greatest: f64) -> (f64, &'static str) {
        let kibi = 1024.0_f64;
        match self {
            Self::Time if greatest >= 1e9 => (1e9, "seconds"),
            Self::Time if greatest >= 1e6 => (1e6, "milliseconds"),
            Self::Time => (1e3, "microseconds"),
            Self::Bytes if greatest >= kibi.powi(3) => (kibi.powi(3), "GiB"),
            Self::Bytes if greatest >= kibi.powi(2) => (kibi.powi(2), "MiB"),
            Self::Bytes => (kibi, "KiB"),
            Self::Rate => (1.0, "tokens a second"),
            Self::Pages => (1.0, "pages the cache may hold"),
        }
    }
}

/// An axis that holds zero and every value.
pub(super) fn from_zero(unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    linear(unit, low, high)
}

/// An axis from the least value to the greatest, by powers where they are far apart.
pub(super) fn spanning(unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > 0.0 && low.is_finite() && high / low >= WIDE {
        let axis = powers(unit, low / 1.1, high * 1.1);
        if axis.ticks.len() >= POWERS_MIN {
            return axis;
        }
    }
    linear(unit, 0.0, high)
}

fn linear(unit: Unit, low: f64, high: f64) -> Axis {
    let high = if high > low { high } else { low + 1.0 };
    let (one, title) = unit.suiting(high.max(-low));
    let rough = (high - low) / one / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|it| it * power);
    let step = round.into_iter().find(|it| *it >= rough).unwrap_or(power);
    let (first, last) = (
        (low / one / step).ceil() as i64,
        (high / one / step).floor() as i64,
    );
    let ticks = (first..=last).map(|at| {
        let value = at as f64 * step;
        (value * one, plain(value, step))
    });
    // A twentieth of air, so that a label at the last tick stays on the paper.
    let air = (high - low) / 20.0;
    let (low, high) = (if low < 0.0 { low - air } else { low }, high + air);
    let ticks = ticks.collect();
    Axis {
        low,
        high,
        by_powers: false,
        ticks,
        title,
    }
}

fn powers(unit: Unit, low: f64, high: f64) -> Axis {
    let (one, title) = unit.suiting((low * high).sqrt());
    let exponents = (low / one).log10().floor() as i32..=(high / one).log10().ceil() as i32;
    let all: Vec<(f64, bool)> = exponents
        .flat_map(|it| {
            [(1.0, true), (2.0, false), (5.0, false)]
                .map(|(by, whole)| (by * 10_f64.powi(it), whole))
        })
        .filter(|(value, _)| (low..=high).contains(&(value * one)))
        .collect();
    let many = all.len() as f64 > TICKS + 1.0;
    let ticks = all.into_iter().filter(|(_, whole)| *whole || !many);
    let ticks = ticks
        .map(|(value, _)| (value * one, plain(value, value)))
        .collect();
    Axis {
        low,
        high,
        by_powers: true,
        ticks,
        title,
    }
}

/// A number with as many decimals as `step` needs.
fn plain(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text
        .trim_start_matches('-')
        .chars()
        .all(|it| it == '0' || it == '.')
    {
        "0".to_owned()
    } else {
        text.replace('-', "\u{2212}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_in_the_unit_that_suits() {
        let axis = from_zero(Unit::Time, [54e9, 289e9].into_iter());
        assert_eq!(
            (labels(&axis), axis.title),
            (vec!["0", "50", "100", "150", "200", "250"], "seconds")
        );
        let axis = from_zero(Unit::Time, [-1.2e9, 29e9].into_iter());
        assert_eq!(labels(&axis), ["0", "10", "20"]);
        let axis = from_zero(Unit::Bytes, [300.0 * 1_048_576.0].into_iter());
        assert_eq!((labels(&axis)[1], axis.title), ("50", "MiB"));
        let axis = spanning(Unit::Time, [5e6, 8e9].into_iter());
        assert_eq!(
            (labels(&axis), axis.title),
            (vec!["10", "100", "1000"], "milliseconds")
        );
    }

    #[test]
    fn values_keep_their_order_and_their_place_on_the_paper() {
        for axis in [
            from_zero(Unit::Time, [-3.0, 8e9].into_iter()),
            spanning(Unit::Time, [1e6, 8e9].into_iter()),
            spanning(Unit::Time, std::iter::empty()),
            from_zero(Unit::Rate, [f64::NAN, f64::INFINITY].into_iter()),
        ] {
            let places: Vec<i32> = axis.ticks.iter().map(|it| axis.place(it.0, 400)).collect();
            assert!(
                places.is_sorted() && places.iter().all(|it| (0..=400).contains(it)),
                "{axis:?}"
            );
            assert!(axis.ticks.len() <= 8, "{axis:?}");
        }
    }
}
