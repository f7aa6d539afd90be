//! A server that runs already: whether it is one that the arm can be asked of, and emptied of what it was asked before.
//!
//! Not here: starting one (`process`). What such a server is set to is known as far as it says, and how it was started is not.

use hyper::Method;

use super::client::text;
use super::endpoint::Endpoint;
use super::process::{Asked, Started};
use super::protocol::llama::{self, Loaded};
use super::{Host, QUESTION_LIMIT_S};
use crate::Error;
use crate::external::file_sha256;

/// Refuses a server of another model or with other slots, and empties its slots, so that each repetition begins cold.
pub(super) async fn adopt(
    server: &Started,
    asked: &Asked<'_>,
    model_sha256: &str,
    host: &Host<'_>,
) -> Result<(), Error> {
    let endpoint = Endpoint::from(server.address);
    let clock = host.clock;
    let (get, empty) = (Method::GET, String::new());
    let props = text(&endpoint, get, "/props", empty, QUESTION_LIMIT_S, clock).await?;
    let loaded = llama::loaded(&props).map_err(Error::External)?;
    let (held, needed) = (loaded.slot_positions(), asked.positions_needed);
    let Loaded { model, slots, .. } = loaded;
    if slots != asked.slots {
        return Err(Error::External(format!(
            "the server at {} has {slots} slots, and {} agents need one each: start it with -np {1}",
            server.address, asked.slots
        )));
    }
    if let Some(held) = held.filter(|held| *held < needed) {
        return Err(Error::External(format!(
            "a slot of the server at {} holds {held} positions, and a transcript has {needed}: start it with -c {}",
            server.address,
            needed * slots
        )));
    }
    let file = model.display();
    let found = file_sha256(&model).map_err(|error| {
        Error::External(format!(
            "the server at {} says that it has loaded {file}, which cannot be read here ({error}): start it with -m and a whole path",
            server.address
        ))
    })?;
    if found != model_sha256 {
        return Err(Error::External(format!(
            "the server at {} has loaded {file}, which is not the model of this run (sha256 {found}, not {model_sha256})",
            server.address
        )));
    }
    for slot in 0..slots {
        let (path, body) = llama::erase(slot);
        let answer = text(
            &endpoint,
            Method::POST,
            &path,
            body,
            QUESTION_LIMIT_S,
            clock,
        )
        .await;
        answer.map_err(|error| {
            Error::External(format!(
                "{path}: {error}; start the server with --slot-save-path DIR, or its slots cannot be emptied"
            ))
        })?;
    }
    Ok(())
}
