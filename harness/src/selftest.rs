//! `selftest statistics`: how often the statistical rule raises a false alarm and how often it misses a difference.
//!
//! Not here: the rule (`workloads::statistics`) or the made-up runs (`workloads::statistics::simulate`).

use std::io::Write;
use std::thread;

use serde_json::{Value, json};
use workloads::statistics::simulate::{Scene, Verdicts, judge, rate_interval};

use crate::error::Error;
use crate::table::Table;
use crate::world::World;

const SEED: u64 = 0x66_616b;
const TIMES: [f64; 3] = [1.0, 1.1, 1.15];
const NOISES: [f64; 4] = [0.01, 0.02, 0.05, 0.1];
const PAIRS: [usize; 3] = [5, 7, 9];

/// A scene and what became of its runs.
struct Played {
    scene: Scene,
    verdicts: Verdicts,
    trials: usize,
}

impl Played {
    /// Runs whose verdict contradicts the truth; saying nothing is no error.
    fn wrong(&self) -> usize {
        let Verdicts {
            faster,
            slower,
            parity,
            ..
        } = self.verdicts;
        let right = if self.differs() { faster } else { parity };
        faster + slower + parity - right
    }

    /// Runs that did not find the difference there is.
    fn missed(&self) -> usize {
        self.trials - self.verdicts.faster
    }

    fn differs(&self) -> bool {
        self.scene.times > 1.0
    }

    fn rate(&self, hits: usize) -> Value {
        let (low, high) = rate_interval(hits, self.trials);
        json!({ "rate": hits as f64 / self.trials as f64, "low": low, "high": high })
    }

    /// A rate as people read it: percent, and how uncertain so few trials leave it.
    fn percent(&self, hits: usize) -> String {
        let (low, high) = rate_interval(hits, self.trials);
        let [rate, low, high] = [hits as f64 / self.trials as f64, low, high].map(|it| it * 100.0);
        format!("{rate:.2} % ({low:.2} to {high:.2})")
    }
}

/// What is promised of some scenes: that a rate stays under a limit.
struct Promise {
    words: &'static str,
    is_about: fn(&Scene) -> bool,
    hits: fn(&Played) -> usize,
    limit: f64,
}

/// What so many runs say of a promise, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// The whole interval of every rate keeps it.
    Holds,
    /// Some interval reaches over the limit: more runs would tell.
    Undecided,
    /// The whole interval of some rate breaks it.
    Broken,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Holds => "HOLDS",
            Self::Undecided => "UNDECIDED",
            Self::Broken => "BROKEN",
        }
    }

    /// Of a promise whose worst state this is.
    fn exit_code(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Undecided => 3,
            Self::Broken => 1,
        }
    }
}

impl Promise {
    fn state(&self, played: &[Played]) -> State {
        let about = played.iter().filter(|it| (self.is_about)(&it.scene));
        let states = about.map(|it| match rate_interval((self.hits)(it), it.trials) {
            (_, high) if high < self.limit => State::Holds,
            (low, _) if low < self.limit => State::Undecided,
            _ => State::Broken,
        });
        states.max().unwrap_or(State::Broken) // a promise about nothing that was played is not kept
    }
}

const PROMISES: [Promise; 2] = [
    Promise {
        words: "A against A, 10 % noise, 5 pairs: under 2 % wrong verdicts",
        is_about: |it| (it.times, it.noise, it.pairs) == (1.0, 0.1, 5),
        hits: Played::wrong,
        limit: 0.02,
    },
    Promise {
        words: "A against 1.15 A, 2 % noise: over 95 % found",
        is_about: |it| (it.times, it.noise) == (1.15, 0.02),
        hits: Played::missed,
        limit: 0.05,
    },
];

/// Plays every scene `trials` times; 1 if a promise is broken, 3 if so few trials cannot tell.
pub fn statistics(
    trials: usize,
    as_json: bool,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let scenes: Vec<Scene> = TIMES
        .iter()
        .flat_map(|&times| NOISES.map(|noise| (times, noise)))
        .flat_map(|(times, noise)| {
            PAIRS.map(|pairs| Scene {
                times,
                noise,
                pairs,
            })
        })
        .collect();
    world.say(&format!(
        "judging {} made-up runs, about {} s",
        scenes.len() * trials,
        (scenes.len() * trials).div_ceil(4000 * world.cores)
    ));
    let played = play(&scenes, trials, world.cores);
    let promises = PROMISES
        .each_ref()
        .map(|promise| (promise.words, promise.state(&played)));
    if as_json {
        write_json(&played, &promises, trials, out)?;
    } else {
        write_text(&played, &promises, trials, out)?;
    }
    let worst = promises.iter().map(|(_, state)| *state).max();
    Ok(worst.map_or(0, State::exit_code))
}

/// Every scene once, dealt out to as many threads as there are cores.
fn play(scenes: &[Scene], trials: usize, threads: usize) -> Vec<Played> {
    let share = |thread: usize| {
        let own = scenes.iter().enumerate().skip(thread).step_by(threads);
        let played = own.map(|(place, &scene)| {
            let verdicts = judge(scene, trials, SEED);
            let played = Played {
                scene,
                verdicts,
                trials,
            };
            (place, played)
        });
        played.collect::<Vec<_>>()
    };
    let mut played: Vec<(usize, Played)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || share(thread)))
            .collect();
        let own = share(0);
        let joined = others.into_iter().filter_map(|other| other.join().ok());
        joined.chain([own]).flatten().collect()
    });
    played.sort_unstable_by_key(|(place, _)| *place);
    played.into_iter().map(|(_, played)| played).collect()
}

fn write_text(
    played: &[Played],
    promises: &[(&str, State)],
    trials: usize,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut table = Table::new(&["truth", "noise", "pairs", "wrong", "missed"]);
    for it in played {
        let Scene {
            times,
            noise,
            pairs,
        } = it.scene;
        table.row([
            if it.differs() {
                format!("A against {times} A")
            } else {
                "A against A".to_owned()
            },
            format!("{:.0} %", noise * 100.0),
            pairs.to_string(),
            it.percent(it.wrong()),
            if it.differs() {
                it.percent(it.missed())
            } else {
                "-".to_owned()
            },
        ]);
    }
    writeln!(out, "{}", table.render())?;
    writeln!(
        out,
        "{trials} seeded runs each, with 95 % intervals of the rates. noise: of every sample, log-normal; wrong: a \
         verdict\nthat contradicts the truth; missed: a difference not found, INCONCLUSIVE or worse.\n"
    )?;
    for (words, state) in promises {
        writeln!(out, "{:<9}  {words}", state.word())?;
    }
    Ok(())
}

fn write_json(
    played: &[Played],
    promises: &[(&str, State)],
    trials: usize,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let scenes: Vec<Value> = played
        .iter()
        .map(|it| {
            let Verdicts {
                faster,
                slower,
                parity,
                inconclusive,
            } = it.verdicts;
            json!({
                "times": it.scene.times, "noise": it.scene.noise, "pairs": it.scene.pairs,
                "verdicts": { "FASTER": faster, "SLOWER": slower, "PARITY": parity, "INCONCLUSIVE": inconclusive },
                "wrong": it.rate(it.wrong()),
                "missed": it.differs().then(|| it.rate(it.missed())),
            })
        })
        .collect();
    let promises: Vec<Value> = promises
        .iter()
        .map(|(words, state)| json!({ "promise": words, "state": state.word() }))
        .collect();
    let document = json!({
        "provenance": "SIMULATED", "trials": trials, "seed": SEED, "scenes": scenes, "promises": promises,
    });
    writeln!(out, "{document:#}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_broken_or_kept_only_by_enough_runs() {
        let [wrong, _] = &PROMISES;
        let scene = Scene {
            times: 1.0,
            noise: 0.1,
            pairs: 5,
        };
        let played = |faster: usize, trials: usize| Played {
            scene,
            trials,
            verdicts: Verdicts {
                faster,
                slower: 0,
                parity: 0,
                inconclusive: trials - faster,
            },
        };
        let state = |faster, trials| wrong.state(&[played(faster, trials)]);
        assert_eq!(state(0, 10), State::Undecided);
        assert_eq!(state(0, 1000), State::Holds);
        assert_eq!(state(20, 1000), State::Undecided);
        assert_eq!(state(100, 1000), State::Broken);
        assert_eq!(wrong.state(&[]), State::Broken);
        let both = [played(0, 1000), played(100, 1000)];
        assert_eq!(wrong.state(&both), State::Broken);
        let codes = [State::Holds, State::Undecided, State::Broken].map(State::exit_code);
        assert_eq!(codes, [0, 3, 1]);
    }
}
