//! `model list` and `model inspect`: which models there are, and what one is.
//!
//! Not here: changing anything.

use std::io::Write;

use serde_json::json;
use workloads::models::Source;

use super::{all, commands, locate, registration};
use crate::error::Error;
use crate::table::{Table, or_dash, size};
use crate::world::World;

/// Prints every named model.
pub fn list(as_json: bool, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let mut table = Table::new(&["model", "state", "size", "licence"]).left(2);
    let mut rows = Vec::new();
    for (name, model) in all()? {
        let built_in = matches!(model.source, Source::Synthetic {});
        let cached = if built_in {
            None
        } else {
            registration(&name, world)?
        };
        let bytes = cached
            .as_ref()
            .and_then(|(path, _)| path.metadata().ok())
            .map(|it| it.len());
        let state = match (built_in, &cached) {
            (true, _) => "built in".to_owned(),
            (false, Some(_)) => "here".to_owned(),
            (false, None) => commands(&name, &model, world),
        };
        table.row([
            name.clone(),
            state,
            or_dash(bytes, size),
            model.licence.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
        rows.push(json!({
            "name": name,
            "present": built_in || cached.is_some(),
            "label": model.label,
            "source": model.source,
            "licence": model.licence,
            "bytes": bytes,
            "sha256": cached.map(|(_, known)| known.sha256).or(model.sha256),
        }));
    }
    if as_json {
        writeln!(out, "{:#}", json!({ "models": rows }))?;
    } else {
        write!(out, "{}", table.render())?;
    }
    Ok(0)
}

/// Opens one model and prints what it is.
pub fn inspect(
    reference: &str,
    as_json: bool,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let located = locate(reference, world)?;
    let model = located.open()?;
    let facts = [
        ("name", json!(located.name)),
        ("label", json!(located.label)),
        ("sha256", json!(model.sha256()?)),
        ("tokenizer_sha256", json!(model.tokenizer_sha256())),
        ("vocab", json!(model.vocab())),
        ("context_length", json!(model.context_length())),
    ];
    if as_json {
        let document: serde_json::Map<_, _> = facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        writeln!(out, "{:#}", json!(document))?;
    } else {
        for (name, value) in facts {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            writeln!(
                out,
                "{name:<18}{}",
                if value.is_null() { "-" } else { &text }
            )?;
        }
    }
    Ok(0)
}
