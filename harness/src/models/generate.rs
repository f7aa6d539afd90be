//! `model logits` and `model generate`: the engine on one prompt, for checks against other
//! implementations.
//!
//! Not here: arms, batches or measurement.

use std::fs;
use std::io::Write;
use std::path::Path;

use engine::{
    CachePolicy, Engine, EngineOptions, Event, FinishReason, PAGE_POSITIONS, Request, Sink,
};
use serde_json::json;

use super::locate;
use crate::cli::{EngineArguments, GenerateArguments, LogitsArguments};
use crate::error::Error;
use crate::files;
use crate::world::World;

/// Positions per prefill step; the answer does not depend on it.
const CHUNK_TOKENS: usize = 256;

/// Writes the logits of a prompt as raw little-endian f32.
pub fn logits(
    arguments: &LogitsArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let model = locate(&arguments.reference, world)?.open()?;
    let ids = read_ids(&arguments.ids, world)?;
    let vocabulary = model.vocab();
    let mut engine = Engine::new(model, &options(&arguments.engine, ids.len(), world)?)?;
    let numbers = engine.logits(&ids, arguments.all)?;
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let target = world.working_directory.join(&arguments.out);
    if target.exists() && !target.is_file() {
        // A pipe or device is written through: renaming onto it would replace it.
        fs::write(&target, bytes).map_err(|source| Error::io("cannot write", &target, source))?;
    } else {
        files::write_atomically(&target, &bytes)?;
    }
    let rows = numbers.len() / vocabulary.max(1);
    writeln!(
        out,
        "{rows} x {vocabulary} f32 in {}",
        arguments.out.display()
    )?;
    Ok(0)
}

/// Continues a prompt, the likeliest token each time.
pub fn generate(
    arguments: &GenerateArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let model = locate(&arguments.reference, world)?.open()?;
    let prompt = match (&arguments.prompt, &arguments.ids) {
        (_, Some(path)) => read_ids(path, world)?,
        (Some(text), None) => encode(text, &model, &arguments.reference)?,
        (None, None) => {
            return Err(Error::Usage(
                "give --prompt TEXT or --ids FILE.json".to_owned(),
            ));
        }
    };
    let positions = prompt.len().saturating_add(arguments.count);
    let mut engine = Engine::new(model, &options(&arguments.engine, positions, world)?)?;
    engine.submit(Request {
        id: 0,
        session: 0,
        prompt,
        decode_max: arguments.count,
        ignore_eos: arguments.ignore_eos,
    })?;
    let mut answer = Answer::default();
    while engine.step(&mut answer)? {}
    let text = engine
        .model()
        .tokenizer()
        .map(|it| it.decode(&answer.ids))
        .transpose()?;
    if arguments.json {
        let document = json!({ "ids": answer.ids, "text": text, "finish": answer.finish });
        writeln!(out, "{document:#}")?;
    } else {
        writeln!(
            out,
            "{}",
            text.unwrap_or_else(|| json!(answer.ids).to_string())
        )?;
    }
    Ok(0)
}

/// Ids of a prompt as the model expects them: its first id where it wants one, special tokens by name.
fn encode(text: &str, model: &engine::Model, reference: &str) -> Result<Vec<u32>, Error> {
    let tokenizer = model.tokenizer().ok_or_else(|| {
        Error::Usage(format!(
            "{reference} has no tokenizer; give --ids FILE.json instead of --prompt"
        ))
    })?;
    let ids = tokenizer.encode(text, true)?;
    Ok(tokenizer.bos().into_iter().chain(ids).collect())
}

/// Collects the one request's output.
#[derive(Default)]
struct Answer {
    ids: Vec<u32>,
    finish: Option<&'static str>,
}

impl Sink for Answer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Token { id, .. } => self.ids.push(id),
            Event::Finish { reason, .. } => {
                self.finish = Some(match reason {
                    FinishReason::Length => "length",
                    FinishReason::Eos => "eos",
                });
            }
            _ => {}
        }
    }
}

fn options(
    arguments: &EngineArguments,
    positions: usize,
    world: &World,
) -> Result<EngineOptions, Error> {
    Ok(EngineOptions {
        kernels: arguments.kernels.parse().map_err(Error::Usage)?,
        threads: arguments.threads.unwrap_or(world.cores),
        chunk_tokens: CHUNK_TOKENS,
        kv_pages: positions.div_ceil(PAGE_POSITIONS) + 1,
        cache: CachePolicy::None,
        batched: false,
    })
}

/// Reads a JSON array of token ids; read and not mapped, so that a pipe will do.
fn read_ids(path: &Path, world: &World) -> Result<Vec<u32>, Error> {
    let text = files::read_text(&world.working_directory.join(path))?;
    let ids: Vec<u32> = serde_json::from_str(&text).map_err(|error| {
        Error::Usage(format!(
            "{}: {error}; give a JSON array of token ids such as [1, 2, 3]",
            path.display()
        ))
    })?;
    if ids.is_empty() {
        return Err(Error::Usage(format!(
            "{}: no ids; give at least one",
            path.display()
        )));
    }
    Ok(ids)
}
