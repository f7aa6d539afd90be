//! Chat templates: a conversation in, the text a model was trained on out, as Jinja2 under transformers renders it.
//!
//! A template comes with a model file and is not trusted: steps, output, nesting and stack are bounded, and it sees
//! nothing but its input. One gap is the library's: `~`, comparisons and filters other than `string` and `tojson`, given
//! a list that holds another many times over or a namespace that holds itself, charge for it only afterwards.
//! Not here: token ids of the text beyond where BOS goes, parsing what the model answers.

mod clock;
mod guard;
mod json;
mod methods;

pub use clock::Clock;
pub use guard::Guard;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind, State};
use serde::Deserialize;

use crate::error::{Error, Result};

/// Longest source believed; the longest published templates have some 40 kB.
const SOURCE_BYTES_MAX: usize = 1 << 18;
/// Steps of a rendering whatever its input. A step is an instruction or 64 bytes made, so steps bound memory too.
const STEPS_BASE: u64 = 1 << 20;
/// Further steps per byte of input: the hungriest published templates take 3 on a long conversation with tools.
const STEPS_PER_BYTE: u64 = 4;
/// Most steps of any rendering: a fraction of a second, and at most 256 MiB made.
const STEPS_MAX: u64 = 1 << 22;
/// Longest text rendered: more than the longest context holds.
const OUTPUT_BYTES_MAX: usize = 1 << 24;
/// Deepest nesting of a value made into text, as deep as `serde_json` reads.
const DEPTH_MAX: usize = 128;
/// Nested macros and loops; real templates have under ten.
const RECURSION_MAX: usize = 200;
/// Stack of the rendering thread. The steps pay for lists nested some 700 000 deep, and the library recurses with 520
/// bytes a level where it prints or drops one. Only a template that does so touches the pages.
const STACK_BYTES: usize = 1 << 29;
/// The name templates go by in the environment; no file ending, so that nothing is escaped.
const NAME: &str = "chat";

/// A parsed chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
}

/// A JSON value whose objects keep the order of their keys, which `tojson` shows the model.
///
/// `serde_json::from_str` reads one; so does any derived `Deserialize` that has it as a field.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Json(Value);

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(Value::from(Serde(value)))
    }
}

/// What a template sees.
#[derive(Clone, Copy)]
pub struct ChatInput<'a> {
    /// Messages as the chat API has them: objects with `role`, `content` and whatever else.
    pub messages: &'a [Json],
    /// The array of tool definitions.
    pub tools: Option<&'a Json>,
    /// Whether to open the assistant's turn.
    pub add_generation_prompt: bool,
    /// Text of the BOS token, empty where there is none.
    pub bos_token: &'a str,
    /// Text of the EOS token, empty where there is none.
    pub eos_token: &'a str,
    /// What `strftime_now` calls now.
    pub clock: Clock,
    /// Further variables by name (`enable_thinking`); they win over the ones above.
    pub extra: &'a BTreeMap<String, Json>,
}

impl ChatTemplate {
    /// Parses `source`.
    pub fn new(source: &str) -> Result<Self> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(Error::TemplateLimit(format!(
                "its source has {} bytes; at most {SOURCE_BYTES_MAX} are believed",
                source.len()
            )));
        }
        let environment = on_own_stack(|| parse(source))?;
        Ok(Self { environment })
    }

    /// The text of a conversation.
    pub fn render(&self, input: &ChatInput<'_>) -> Result<String> {
        let parts = input.messages.iter().chain(input.tools);
        let parts = parts.chain(input.extra.values());
        let weights = parts.map(|Json(value)| methods::weight(value).unwrap_or(OUTPUT_BYTES_MAX));
        let bytes = weights.sum::<usize>() as u64;
        let mut environment = self.environment.clone();
        environment.set_fuel(Some((STEPS_BASE + STEPS_PER_BYTE * bytes).min(STEPS_MAX)));
        on_own_stack(|| render(&environment, input).map_err(|error| refused(&error)))
    }
}

/// `ids` beginning with `bos` once, where a model wants one: a template may or may not have written it.
pub fn with_bos(mut ids: Vec<u32>, bos: Option<u32>) -> Vec<u32> {
    if let Some(bos) = bos.filter(|bos| ids.first() != Some(bos)) {
        ids.insert(0, bos);
    }
    ids
}

/// Token ids of a rendered conversation; `encode` takes the template's special tokens as such and adds nothing.
///
/// [`Guard::encode`] is the `encode` for conversations whose words somebody else wrote.
pub fn encode_chat(
    rendered: &str,
    bos: Option<u32>,
    encode: impl FnOnce(&str) -> Result<Vec<u32>>,
) -> Result<Vec<u32>> {
    Ok(with_bos(encode(rendered)?, bos))
}

/// Set up as transformers sets Jinja2 up: `trim_blocks`, `lstrip_blocks`, loop controls, Python's methods.
fn parse(source: &str) -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|error| refused(&error))?;
    environment.set_syntax(syntax);
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_unknown_method_callback(methods::call);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("string", methods::string);
    environment.set_formatter(methods::print);
    environment.add_test("iterable", methods::is_iterable);
    environment.add_function("raise_exception", |state: &State, message: &Value| {
        let message = methods::string(state, message)?.to_string();
        let error = minijinja::Error::from(ErrorKind::InvalidOperation);
        Err::<Value, _>(error.with_source(Raised(message)))
    });
    environment
        .add_template_owned(NAME, generation_as_with(source))
        .map_err(|error| refused(&error))?;
    Ok(environment)
}

/// Transformers' `generation` block marks the assistant's words for training; to the text it is a scope and no more.
fn generation_as_with(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        let name = tag.trim_start_matches(['-', '+']).trim_start();
        let lead = &tag[..tag.len() - name.len()];
        let word = name.split(|c: char| !c.is_alphanumeric()).next();
        let (old, new) = match word {
            Some("generation") => ("generation", "with"),
            Some("endgeneration") => ("endgeneration", "endwith"),
            _ => ("", ""),
        };
        text.extend([before, lead, new]);
        rest = &name[old.len()..];
    }
    text + rest
}

fn render(
    environment: &Environment<'_>,
    input: &ChatInput<'_>,
) -> std::result::Result<String, minijinja::Error> {
    let clock = input.clock;
    let mut context = vec![
        (
            "messages",
            input
                .messages
                .iter()
                .map(|Json(message)| message.clone())
                .collect(),
        ),
        (
            "tools",
            input
                .tools
                .map_or(Value::from(()), |Json(tools)| tools.clone()),
        ),
        ("documents", Value::from(())),
        ("add_generation_prompt", input.add_generation_prompt.into()),
        ("bos_token", input.bos_token.into()),
        ("eos_token", input.eos_token.into()),
        (
            "strftime_now",
            Value::from_function(move |format: &str| {
                clock.strftime(format).map_err(|what| {
                    let what = format!("strftime_now {what}");
                    minijinja::Error::new(ErrorKind::InvalidOperation, what)
                })
            }),
        ),
    ];
    context.extend(
        input
            .extra
            .iter()
            .map(|(name, Json(value))| (name.as_str(), value.clone())),
    );
    let context: BTreeMap<&str, Value> = context.into_iter().collect();
    let mut output = Output(Vec::new());
    let template = environment.get_template(NAME)?;
    template.render_captured_to(Value::from(context), &mut output)?;
    String::from_utf8(output.0)
        .map_err(|error| minijinja::Error::new(ErrorKind::WriteFailure, error.to_string()))
}

/// Runs `work` where neither deep nesting nor a panic of the library reaches the caller.
fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let failed = |what: String| Err(Error::TemplateLimit(what));
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, work) {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| failed("the template library panicked on it".to_owned())),
            Err(error) => failed(format!("its thread does not start: {error}")),
        }
    })
}

/// Text so far, refusing to grow beyond the limit.
struct Output(Vec<u8>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a template says by `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// The engine's error for the library's: what the template itself raised, a limit, or a fault with its line.
fn refused(error: &minijinja::Error) -> Error {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return Error::TemplateRaised(message.clone());
        }
        source = cause.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => {
            Error::TemplateLimit("it takes too many steps for its input".to_owned())
        }
        ErrorKind::WriteFailure => {
            Error::TemplateLimit(format!("its text exceeds {OUTPUT_BYTES_MAX} bytes"))
        }
        kind => Error::Template {
            line: error.line().unwrap_or(0),
            what: error
                .detail()
                .map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
        },
    }
}
