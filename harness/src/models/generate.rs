//! `model logits` and `model generate`: the engine on one prompt, for checks against other
//! implementations.
//!
//! Not here: arms, batches or measurement.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use engine::template::{ChatInput, ChatTemplate, Clock, Guard, encode_chat, with_bos};
use engine::{CachePolicy, Engine, EngineOptions, Model, PAGE_POSITIONS, Request, SamplingParams};
use serde_json::json;

use super::answer::Answer;
use super::locate;
use crate::cli::{EngineArguments, GenerateArguments, LogitsArguments, SamplingArguments};
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
    let typed = Some(arguments.ids.as_path());
    let options = options(&arguments.engine, ids.len(), world)?;
    let mut engine = Engine::new(model, &options).map_err(|error| refused(error, typed))?;
    let numbers = engine
        .logits(&ids, arguments.all)
        .map_err(|error| refused(error, typed))?;
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

/// Continues a prompt; the text goes out as soon as nothing to come can change it.
pub fn generate(
    arguments: &GenerateArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let model = locate(&arguments.reference, world)?.open()?;
    let prompt = prompt(arguments, &model, world)?;
    let positions = prompt.len().saturating_add(arguments.count);
    let stop = &arguments.sampling.stop;
    let mut answer = Answer::new(model.tokenizer(), stop, &arguments.reference)?;
    let typed = arguments.ids.as_deref();
    let options = options(&arguments.engine, positions, world)?;
    let mut engine = Engine::new(model, &options).map_err(|error| refused(error, typed))?;
    let request = Request {
        prompt,
        decode_max: arguments.count,
        ignore_eos: arguments.ignore_eos,
        sampling: sampling(&arguments.sampling)?,
        ..Request::default()
    };
    engine
        .submit(request)
        .map_err(|error| refused(error, typed))?;
    while engine.step(&mut answer)? {
        let piece = answer.advance()?;
        if answer.is_stopped() {
            engine.cancel(0);
        }
        if !arguments.json {
            write!(out, "{piece}")?;
            out.flush()?;
        }
    }
    let rest = answer.end();
    if arguments.json {
        writeln!(out, "{:#}", answer.document())?;
    } else if answer.text().is_some() {
        writeln!(out, "{rest}")?;
    } else {
        writeln!(out, "{}", json!(answer.ids))?;
    }
    Ok(0)
}

/// Ids to continue: as given, or of the text as the model expects it.
fn prompt(arguments: &GenerateArguments, model: &Model, world: &World) -> Result<Vec<u32>, Error> {
    let (text, reference) = match (&arguments.prompt, &arguments.ids) {
        (_, Some(path)) => return read_ids(path, world),
        (Some(text), None) => (text, &arguments.reference),
        (None, None) => {
            let usage = "give --prompt TEXT or --ids FILE.json";
            return Err(Error::Usage(usage.to_owned()));
        }
    };
    let tokenizer = model.tokenizer().ok_or_else(|| {
        Error::Usage(format!(
            "{reference} has no tokenizer; give --ids FILE.json instead of --prompt"
        ))
    })?;
    let encode = |text: &str| tokenizer.encode(text, true);
    if !arguments.chat {
        return Ok(with_bos(encode(text)?, tokenizer.bos()));
    }
    let source = model.chat_template().ok_or_else(|| {
        Error::Usage(format!(
            "{reference} has no chat template; leave out --chat"
        ))
    })?;
    let spelled = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
    // What the user wrote stays text, special tokens spelled in it included.
    let guard = Guard::new(tokenizer.special_tokens(), &[text])?;
    let content = guard.protect(text);
    let rendered = ChatTemplate::new(source)?.render(&ChatInput {
        messages: &[json!({ "role": "user", "content": content }).into()],
        tools: None,
        add_generation_prompt: true,
        bos_token: spelled(tokenizer.bos_id()),
        eos_token: spelled(tokenizer.eos_id()),
        clock: Clock::from_unix_seconds((world.unix_s)().try_into().unwrap_or(i64::MAX)),
        extra: &BTreeMap::new(),
    })?;
    let encode = |text: &str| guard.encode(text, |text, special| tokenizer.encode(text, special));
    Ok(encode_chat(&rendered, tokenizer.bos(), encode)?)
}

fn sampling(arguments: &SamplingArguments) -> Result<SamplingParams, Error> {
    let logit_bias: BTreeMap<u32, f32> = arguments.logit_bias.iter().copied().collect();
    if logit_bias.len() < arguments.logit_bias.len() {
        let usage = "--logit-bias names an id twice; give each id once";
        return Err(Error::Usage(usage.to_owned()));
    }
    Ok(SamplingParams {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        min_p: arguments.min_p,
        repetition_penalty: arguments.repetition_penalty,
        presence_penalty: arguments.presence_penalty,
        frequency_penalty: arguments.frequency_penalty,
        logit_bias,
        seed: arguments.seed,
        logprobs: arguments.logprobs,
        stop_ids: arguments.stop_id.clone(),
    })
}

pub(super) fn options(
    arguments: &EngineArguments,
    positions: usize,
    world: &World,
) -> Result<EngineOptions, Error> {
    Ok(EngineOptions {
        mode: arguments.mode.parse().map_err(Error::Usage)?,
        kv_type: match &arguments.kv {
            Some(name) => Some(name.parse().map_err(Error::Usage)?),
            None => None,
        },
        kernels: arguments.kernels.parse().map_err(Error::Usage)?,
        threads: arguments.threads.unwrap_or(world.cores),
        chunk_tokens: CHUNK_TOKENS,
        kv_pages: positions.div_ceil(PAGE_POSITIONS) + 1,
        cache: CachePolicy::None,
        batched: false,
        shared_attention: false,
        ..EngineOptions::default()
    })
}

/// The engine's refusal, with the flag it is about where one was typed.
pub(super) fn refused(error: engine::Error, ids: Option<&Path>) -> Error {
    use engine::Error as Refusal;
    let flag = match (&error, ids) {
        (
            Refusal::BadOption {
                option: "threads",
                value,
                range,
            },
            _,
        ) => {
            return Error::Usage(format!("--threads is {value}; it must be {range}"));
        }
        (
            Refusal::BadOption {
                option: "decode_max",
                value,
                range,
            },
            _,
        ) => {
            return Error::Usage(format!("-n is {value}; it must be {range}"));
        }
        (Refusal::ContextExceeded { .. }, None) => "-n and --prompt".to_owned(),
        (Refusal::EmptyPrompt, None) => "--prompt".to_owned(),
        (
            Refusal::ContextExceeded { .. }
            | Refusal::EmptyPrompt
            | Refusal::TokenOutOfRange { .. },
            Some(path),
        ) => format!("--ids {}", path.display()),
        _ => return error.into(),
    };
    Error::Usage(format!("{flag}: {error}"))
}

/// Reads a JSON array of token ids; read and not mapped, so that a pipe will do.
fn read_ids(path: &Path, world: &World) -> Result<Vec<u32>, Error> {
    let shown = path.display();
    let text = fs::read_to_string(world.working_directory.join(path)).map_err(|error| {
        Error::Usage(format!(
            "--ids {shown}: cannot read it: {error}; give a file with a JSON array of token ids"
        ))
    })?;
    let ids: Vec<u32> = serde_json::from_str(&text).map_err(|error| {
        Error::Usage(format!(
            "--ids {shown}: {error}; give a JSON array of token ids such as [1, 2, 3]"
        ))
    })?;
    if ids.is_empty() {
        let usage = format!("--ids {shown}: no ids; give at least one");
        return Err(Error::Usage(usage));
    }
    Ok(ids)
}
