//! The table.
//!
//! Not here: runs that replace anchored ones (`replaced`), or how a lie is told consistently (`tell`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod files;
mod lines;
mod prompts;
mod records;
mod replay;
mod scripted;
mod settings;

use std::path::Path;

use audit::Layer;

use crate::fixture::{Fixture, cells};

/// Who catches a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Catcher {
    /// This family of checks, from the run directory alone.
    Layer(Layer),
    /// The engine, asked again; the audit passes and says so.
    Replay,
}

/// What the audit says of lies it leaves to the engine.
pub(crate) const CATCHER_OF_REPLAY: &str = "replay with the engine";

/// The file that seals a run, and the trace most lies are told in.
pub(crate) const SUMS: &str = "SHA256SUMS";
pub(crate) const FUSED: &str = "trace/fused-0.jsonl";

/// How a lie is told: to the run before it is written, or to its files.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    Told(fn(&mut Fixture)),
    Written(fn(&Path)),
}

/// One row: see `main`. `line` is a text of the line that must be named, empty where a file as a whole is.
pub(crate) struct Forgery {
    pub(crate) name: &'static str,
    pub(crate) catcher: Catcher,
    pub(crate) code: u8,
    pub(crate) file: &'static str,
    pub(crate) line: &'static str,
    /// A fragment of the message; of a lie left to replay, the kind of value that would be replayed.
    pub(crate) word: &'static str,
    pub(crate) honest: fn() -> Fixture,
    pub(crate) made: Made,
}

type Where = (&'static str, &'static str);

const fn row(
    name: &'static str,
    catcher: Catcher,
    (file, line): Where,
    word: &'static str,
    made: Made,
) -> Forgery {
    let code = match catcher {
        Catcher::Layer(_) => 4,
        Catcher::Replay => 0,
    };
    Forgery {
        name,
        catcher,
        code,
        file,
        line,
        word,
        honest: Fixture::ladder,
        made,
    }
}

/// A lie about a session, told before it is written.
const fn told(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    tell: fn(&mut Fixture),
) -> Forgery {
    row(name, Catcher::Layer(layer), place, word, Made::Told(tell))
}

/// A lie told to the files of a session.
const fn written(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    tell: fn(&Path),
) -> Forgery {
    row(
        name,
        Catcher::Layer(layer),
        place,
        word,
        Made::Written(tell),
    )
}

/// A lie only the engine can catch.
const fn replayed(name: &'static str, word: &'static str, tell: fn(&mut Fixture)) -> Forgery {
    row(name, Catcher::Replay, ("", ""), word, Made::Told(tell))
}

/// A lie about engine work.
const fn of_cells(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    tell: fn(&mut Fixture),
) -> Forgery {
    Forgery {
        honest: cells::run,
        ..told(name, layer, place, word, tell)
    }
}

/// Every forged run that a directory alone, or the engine, gives away.
pub(crate) fn rows() -> Vec<&'static Forgery> {
    let groups = [
        files::SEALS_AND_CHAINS,
        files::DECLARATIONS,
        lines::ORDER_OF_LINES,
        lines::CLOCKS_AND_MEMORY,
        settings::SETTINGS,
        settings::ENGINE_WORK,
        prompts::PROMPTS,
        prompts::COUNTS,
        records::RECORDS,
        records::SAMPLES,
        replay::LEFT_TO_REPLAY,
        scripted::SCRIPTED,
        scripted::FAR_OUT,
    ];
    groups.into_iter().flatten().collect()
}
