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

/// What is promised of some scenes; it holds where the whole interval of the rate keeps it.
struct Promise {
    words: &'static str,
    is_about: fn(&Scene) -> bool,
    holds: fn(&Played) -> bool,
}

const PROMISES: [Promise; 2] = [
    Promise {
        words: "A against A, 10 % noise, 5 pairs: under 2 % wrong verdicts",
        is_about: |it| (it.times, it.noise, it.pairs) == (1.0, 0.1, 5),
        holds: |it| rate_interval(it.wrong(), it.trials).1 < 0.02,
    },
    Promise {
        words: "A against 1.15 A, 2 % noise: over 95 % found",
        is_about: |it| (it.times, it.noise) == (1.15, 0.02),
        holds: |it| rate_interval(it.missed(), it.trials).1 < 0.05,
    },
];

/// Plays every scene `trials` times; 1 if a promise is broken.
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
    let promises: Vec<(&str, bool)> = PROMISES
        .iter()
        .map(|promise| {
            let about = played.iter().filter(|it| (promise.is_about)(&it.scene));
            let kept: Vec<bool> = about.map(promise.holds).collect();
            // A promise about nothing that was played is not kept.
            (promise.words, !kept.is_empty() && !kept.contains(&false))
        })
        .collect();
    if as_json {
        write_json(&played, &promises, trials, out)?;
    } else {
        write_text(&played, &promises, trials, out)?;
    }
    Ok(u8::from(promises.iter().any(|(_, holds)| !holds)))
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
    promises: &[(&str, bool)],
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
    for (words, holds) in promises {
        writeln!(out, "{}  {words}", if *holds { "holds " } else { "BROKEN" })?;
    }
    Ok(())
}

fn write_json(
    played: &[Played],
    promises: &[(&str, bool)],
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
        .map(|(words, holds)| json!({ "promise": words, "holds": holds }))
        .collect();
    let document = json!({
        "provenance": "SIMULATED", "trials": trials, "seed": SEED, "scenes": scenes, "promises": promises,
    });
    writeln!(out, "{document:#}")?;
    Ok(())
}
