//! llama.cpp's server: `/completion` with token ids, `/slots` to copy a cache, `/props` and its log for its settings.
//!
//! As b11434 speaks, which is run here. Not here: starting it (`process`).

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use workloads::trace::server::ServerSettings;

use super::{Ask, Framing, Piece, Prompt, Protocol, Said, Shape, Told, parsed, quoted};

static STREAMED: Shape = shape(Framing::Events);
/// One JSON document and nothing else.
static WHOLE: Shape = shape(Framing::Lines);

const fn shape(framing: Framing) -> Shape {
    Shape {
        name: "llama.cpp's server",
        version: None,
        path: "/completion",
        prompt: Prompt::Ids("prompt"),
        framing,
        key: ("authorization", "Bearer "),
        headers: &[],
        ignores_eos: true,
    }
}

/// Such a server.
#[derive(Clone, Copy, Debug)]
pub struct Llama {
    /// Whether answers are streamed. A stream holds back text that ends within a character, and the ids of what it held
    /// back never come; who needs every id asks for the whole answer at once, and has no time of its first token.
    pub stream: bool,
}

impl Protocol for Llama {
    fn shape(&self) -> &'static Shape {
        if self.stream { &STREAMED } else { &WHOLE }
    }

    fn completion(&self, ask: &Ask<'_>) -> Result<String, String> {
        let body = json!({
            "prompt": [],
            "n_predict": ask.decode,
            "stream": self.stream,
            "return_tokens": true,
            "cache_prompt": true,
            "ignore_eos": true,
            "temperature": 0,
            "samplers": ["temperature"], // the others would only cost time
            "id_slot": ask.slot,
        });
        Ok(body.to_string())
    }

    fn event(&self, text: &str, told: &mut Told) -> Result<Said, String> {
        let event: Event<'_> = parsed(text)?;
        if let Some(error) = event.error {
            return Err(format!("it refuses: {}", quoted(error.get())));
        }
        if event.stop != Some(true) {
            return Ok(Said::piece(Piece::of_ids(event.tokens)));
        }
        if event.truncated {
            return Err("it truncated the prompt".to_owned());
        }
        let piece = Piece::of_ids(event.tokens.clone());
        *told = last(event)?;
        Ok(Said { piece, over: true })
    }
}

/// The path and body that write a slot's cache to a file or fill it from one.
pub(crate) fn slot(action: &str, slot: usize) -> (String, String) {
    let path = format!("/slots/{slot}?action={action}");
    (path, json!({ "filename": "prefix.bin" }).to_string())
}

/// What a server that was not started here has loaded.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Loaded {
    /// Its model's file, as it was told.
    #[serde(rename = "model_path")]
    pub(crate) model: PathBuf,
    /// How many agents it keeps apart.
    #[serde(rename = "total_slots")]
    pub(crate) slots: usize,
    #[serde(rename = "default_generation_settings")]
    defaults: Defaults,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Defaults {
    n_ctx: Option<usize>,
}

impl Loaded {
    /// Positions a slot may hold, where it says.
    pub(crate) fn slot_positions(&self) -> Option<usize> {
        self.defaults.n_ctx
    }
}

/// What `/props` says is loaded.
pub(crate) fn loaded(props: &str) -> Result<Loaded, String> {
    serde_json::from_str(props).map_err(|error| format!("/props is no answer: {error}"))
}

/// The path and body that empty a slot.
pub(crate) fn erase(slot: usize) -> (String, String) {
    (format!("/slots/{slot}?action=erase"), "{}".to_owned())
}

/// How many positions a slot's copy has, as the answer to [`slot`] says.
pub(crate) fn slot_tokens(answer: &str) -> Result<usize, String> {
    #[derive(Deserialize)]
    struct Copied {
        n_saved: Option<usize>,
        n_restored: Option<usize>,
    }
    let copied: Copied = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let tokens = copied.n_saved.or(copied.n_restored);
    tokens.ok_or_else(|| "it says neither n_saved nor n_restored".to_owned())
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default)]
    tokens: Vec<u32>,
    stop: Option<bool>,
    stop_type: Option<String>,
    #[serde(default)]
    truncated: bool,
    #[serde(borrow)]
    timings: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    generation_settings: Option<Generation>,
}

#[derive(Deserialize)]
struct Generation {
    #[serde(default)]
    logit_bias: Vec<Bias>,
}

#[derive(Deserialize)]
struct Bias {
    /// Null is minus infinity, which JSON cannot say.
    bias: Option<f64>,
    token: u32,
}

#[derive(Default, Deserialize)]
struct Timings {
    #[serde(rename = "cache_n")]
    cached: Option<usize>,
    #[serde(rename = "prompt_n")]
    computed: Option<usize>,
    #[serde(rename = "predicted_n")]
    answered: Option<usize>,
}

/// What the last event of a completion tells.
fn last(event: Event<'_>) -> Result<Told, String> {
    let usage = event.timings.map_or("", RawValue::get);
    let timings: Timings = match usage {
        "" => Timings::default(),
        text => parsed(text)?,
    };
    let barred = event.generation_settings.map_or(Vec::new(), |settings| {
        let barred = settings.logit_bias.into_iter();
        let mut barred: Vec<u32> = barred
            .filter(|bias| bias.bias.is_none())
            .map(|bias| bias.token)
            .collect();
        barred.sort_unstable();
        barred.dedup();
        barred
    });
    let both = timings.cached.zip(timings.computed);
    Ok(Told {
        reason: match event.stop_type.as_deref() {
            Some("limit") => "length".to_owned(),
            other => other.unwrap_or("unknown").to_owned(),
        },
        usage: usage.to_owned(),
        prompt: both.and_then(|(cached, computed)| cached.checked_add(computed)),
        cached: timings.cached,
        computed: timings.computed,
        answered: timings.answered,
        barred,
        ..Told::default()
    })
}

/// The settings it runs with, from `/props` and from what it wrote to its log while it started.
pub(crate) fn settings(props: &str, log: &str) -> Result<ServerSettings, String> {
    #[derive(Deserialize)]
    struct Props {
        total_slots: Option<usize>,
        build_info: Option<String>,
        default_generation_settings: Option<Defaults>,
    }
    let props: Props =
        serde_json::from_str(props).map_err(|error| format!("/props is no answer: {error}"))?;
    let defaults = props.default_generation_settings;
    let fused = match said(log, "flash_attn").as_deref() {
        Some("enabled" | "1") => Some(true),
        Some("disabled" | "0") => Some(false),
        _ => None,
    };
    let (keys, values) = cache_types(log).unzip();
    Ok(ServerSettings {
        build: props.build_info,
        cpu: instructions(log),
        threads: said(log, "n_threads").and_then(|number| number.parse().ok()),
        slots: props.total_slots,
        slot_positions: defaults.and_then(|defaults| defaults.n_ctx),
        flash_attention: fused,
        kv_unified: said(log, "kv_unified").and_then(|word| word.parse().ok()),
        kv_dtype: keys.filter(|keys| Some(keys) == values.as_ref()),
    })
}

/// What the log says a setting is, in a line that has `name = value`; the last one that does.
fn said(log: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        let (before, after) = line.split_once(name)?;
        let begins = !before.ends_with(|it: char| it.is_alphanumeric() || it == '_');
        let value = after.trim_start().strip_prefix('=')?.trim_start();
        let value = value.split([' ', ',', '(']).next()?;
        (begins && !value.is_empty()).then(|| value.trim_matches('\'').to_owned())
    };
    log.lines().filter_map(value).next_back()
}

/// The instruction sets its log says it uses.
fn instructions(log: &str) -> Option<String> {
    let (_, said) = log
        .lines()
        .find_map(|line| line.split_once("system_info:"))?;
    let (_, said) = said.split_once('|')?;
    let used = said.split('|').map(str::trim);
    let used: Vec<&str> = used
        .filter_map(|part| part.strip_suffix("= 1"))
        .map(|part| part.trim().trim_start_matches("CPU :").trim())
        .collect();
    (!used.is_empty()).then(|| used.join(" "))
}

/// Element types of keys and values, from `K (f16): ... V (f16): ...`.
fn cache_types(log: &str) -> Option<(String, String)> {
    let line = log
        .lines()
        .find(|line| line.contains("K (") && line.contains("V ("))?;
    let inside = |mark: &str| {
        let (_, after) = line.split_once(mark)?;
        after.split_once(')').map(|(inside, _)| inside.to_owned())
    };
    Some((inside("K (")?, inside("V (")?))
}
