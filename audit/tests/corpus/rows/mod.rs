//! The table.
//!
//! Not here: runs that replace anchored ones (`replaced`), or how a lie is told consistently (`tell`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod admitted;
mod answers;
mod begins;
mod branches;
mod cells;
mod clock;
mod counted;
mod declared;
mod files;
mod lines;
mod programs;
mod prompts;
mod records;
mod replay;
mod scores;
mod scripted;
mod seals;
mod served;
mod servers;
mod settings;
mod spread;
mod stages;
mod strained;
mod sums;

use std::path::Path;

use audit::Layer;

use crate::fixture::{self, Fixture};

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
const NAIVE: &str = "trace/naive-0.jsonl";
/// Lines of a trace, as findings name them.
const BEGIN: &str = "\"kind\":\"begin\"";
const TEXT: &str = "\"kind\":\"text\"";
const STEP: &str = "\"kind\":\"step\"";
const END: &str = "\"kind\":\"end\"";
/// What stands for a digest of nothing we know.
const ZEROS: &str = "\"0000000000000000000000000000000000000000000000000000000000000000\"";

/// A pointer, and the value to put there as JSON.
type Change = (&'static str, &'static str);

/// How a lie is told.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    /// To the run before it is written.
    Told(fn(&mut Fixture)),
    /// To its files.
    Written(fn(&Path)),
    /// In one value of envelope.toml and envelope.json,
    Declared(Change),
    /// of run.json,
    Recorded(Change),
    /// or of a line of the trace: its kind, and its place among those.
    Said((&'static str, usize), Change),
    /// By another text in another program's output.
    Answered((&'static str, &'static str)),
}

/// One row: see `main`. `line` is a text of the line that must be named, empty where a file as a whole is.
#[derive(Clone, Copy)]
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

/// One value declared otherwise.
const fn declared(name: &'static str, word: &'static str, change: Change) -> Forgery {
    let place = ("envelope.json", "");
    row(
        name,
        Catcher::Layer(Layer::Format),
        place,
        word,
        Made::Declared(change),
    )
}

/// One value of run.json stated otherwise; `line` is that of what does not follow.
const fn recorded(
    name: &'static str,
    line: &'static str,
    word: &'static str,
    change: Change,
) -> Forgery {
    let place = ("run.json", line);
    row(
        name,
        Catcher::Layer(Layer::Record),
        place,
        word,
        Made::Recorded(change),
    )
}

/// One value of one line of a trace said otherwise.
const fn said(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    line: (&'static str, usize),
    change: Change,
) -> Forgery {
    row(
        name,
        Catcher::Layer(layer),
        place,
        word,
        Made::Said(line, change),
    )
}

/// The same lie about engine work.
const fn in_cells(forgery: Forgery) -> Forgery {
    Forgery {
        honest: fixture::cells::run,
        ..forgery
    }
}

/// The same lie about a run that states what the harness takes itself.
const fn measured(forgery: Forgery) -> Forgery {
    Forgery {
        honest: fixture::measured::run,
        ..forgery
    }
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
    in_cells(told(name, layer, place, word, tell))
}

/// Every forged run that a directory alone, or the engine, gives away.
pub(crate) fn rows() -> Vec<&'static Forgery> {
    let groups = [
        files::SEALS_AND_CHAINS,
        files::DECLARATIONS,
        seals::SEALS,
        declared::SESSIONS,
        declared::CELLS,
        begins::BEGINS,
        stages::STAGES,
        stages::SHAPES,
        sums::ENDS,
        sums::STEPS,
        cells::OURS,
        cells::RECORDS,
        programs::ANSWERS,
        programs::QUESTIONS,
        spread::CEILINGS,
        spread::SPREAD,
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
        branches::ASKED,
        branches::SAID,
        strained::ASKED,
        strained::QUARANTINES,
        strained::TREES,
        admitted::ADMITTED,
        servers::BEGUN,
        servers::PREPARED,
        answers::ANSWERED,
        answers::ENDED,
        served::ASKED,
        scores::SCORES,
        served::RECORDED,
        clock::ASKED,
        clock::SENT,
        clock::RECORDED,
        counted::ASKED,
        counted::RECORDED,
    ];
    groups.into_iter().flatten().collect()
}
