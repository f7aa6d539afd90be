//! Servers of other engines over real sockets: what is sent to them to the letter, what their documented answers mean, and
//! what becomes of bad ones.
//!
//! Not here: a real server (`arms`), and what only a whole run can show (`harness`).
#![allow(clippy::unwrap_used)] // tests

mod answers;
mod bad;
mod counts;
mod fake;
mod good;
mod hostile;

use std::cell::Cell;

use baselines::Error;
use baselines::server::protocol::{Ask, Protocol};
use baselines::server::{Completed, Endpoint, Prepared, complete};

use answers::{DECODE, Kind, PROMPT, TEXT};
use fake::{Fake, Script};

/// For answers that come; those that do not are given less.
const LIMIT_S: u64 = 60;

fn prompt() -> Ask<'static> {
    Ask {
        ids: &PROMPT,
        text: Some(TEXT),
        decode: DECODE,
        slot: 0,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Asks on a clock that advances by one at every look.
fn ask(
    endpoint: &Endpoint,
    protocol: &dyn Protocol,
    ask: &Ask<'_>,
    limit_s: u64,
) -> Result<Completed, Error> {
    let now = Cell::new(0);
    let clock = || now.replace(now.get() + 1);
    let prepared = Prepared::new(protocol, ask)?;
    runtime().block_on(complete(endpoint, protocol, &prepared, limit_s, &clock))
}

/// What comes of the kind's request, answered so.
fn answered(kind: &Kind, script: Script) -> Result<Completed, Error> {
    let endpoint = Endpoint::from(Fake::new(kind.takes, script).address);
    ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S)
}

/// Why it fails, in words that have all of `parts`.
fn refused(kind: &Kind, script: Script, parts: &[&str]) -> String {
    said(answered(kind, script), parts)
}

fn said(outcome: Result<Completed, Error>, parts: &[&str]) -> String {
    let words = outcome.unwrap_err().to_string();
    for part in parts {
        assert!(words.contains(part), "`{part}` is not in: {words}");
    }
    words
}
