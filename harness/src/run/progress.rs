//! What a person sees while arms run: a bar on a terminal, one growing line per round elsewhere.
//!
//! Not here: results. Everything goes to standard error and nothing depends on it.

use std::io::Write;

use indicatif::{ProgressBar, ProgressStyle};

use crate::table::duration;

/// Progress over all processes of a run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    rounds: usize,
    round: Option<usize>,
}

impl Progress {
    /// Progress over so many things called `unit`, in `rounds` rounds.
    pub(super) fn new(total: u64, unit: &str, rounds: usize, terminal: bool) -> Self {
        let template =
            format!("{{bar:30}} {{pos}}/{{len}} {unit}  {{elapsed}} (about {{eta}} left)  {{msg}}");
        let style = ProgressStyle::with_template(&template);
        let bar = style.ok().filter(|_| terminal).map(|style| {
            let bar = ProgressBar::new(total).with_style(style);
            bar.enable_steady_tick(std::time::Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            rounds,
            round: None,
        }
    }

    /// A process starts.
    pub(super) fn start(&mut self, arm: &str, rep: usize) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{arm}, round {} of {}", rep + 1, self.rounds));
        } else if self.round != Some(rep) {
            let break_before = if self.round.is_some() { "\n" } else { "" };
            write(&format!(
                "{break_before}round {} of {}:",
                rep + 1,
                self.rounds
            ));
            self.round = Some(rep);
        }
    }

    /// One of the things is done.
    pub(super) fn advance(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A process ended, after `wall_ns` of work or with a message.
    pub(super) fn end(&self, arm: &str, outcome: Result<u64, &str>) {
        match (&self.bar, outcome) {
            (Some(bar), Err(message)) => {
                bar.suspend(|| write(&format!("{arm} failed: {message}\n")));
            }
            (None, Err(message)) => write(&format!("\n{arm} failed: {message}\n")),
            (None, Ok(wall_ns)) => write(&format!("  {arm} {}", duration(wall_ns))),
            (Some(_), Ok(_)) => {}
        }
    }

    /// Everything has run.
    pub(super) fn finish(self) {
        match self.bar {
            Some(bar) => bar.finish_and_clear(),
            None => write("\n"),
        }
    }
}

/// Progress that cannot be shown is no failure.
fn write(text: &str) {
    let mut stream = std::io::stderr();
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
}
