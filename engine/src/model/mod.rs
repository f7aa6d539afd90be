//! The Llama decoder: its numbers, its tensors, one forward pass over a batch of positions.
//!
//! Not here: which positions to run (`schedule`), where keys and values live (`kv`), arithmetic (`backend`).

pub mod config;
mod decoder;

use std::ops::Range;
use std::path::Path;

use sha2::{Digest, Sha256};

pub use config::Config;
pub use decoder::Row;

use crate::backend::RopeTable;
use crate::error::{Error, Result};
use crate::tensor::PackedMatrix;
use crate::tokenizer::Tokenizer;
use crate::weights::TensorSource;
use crate::weights::gguf::Gguf;
use crate::weights::names::{EMBEDDING, Layer as Name, OUTPUT, OUTPUT_NORM};
use crate::weights::synthetic::{self, Synthetic};

struct Layer {
    attention_norm: Vec<f32>,
    query: PackedMatrix,
    key: PackedMatrix,
    value: PackedMatrix,
    attention_output: PackedMatrix,
    feed_forward_norm: Vec<f32>,
    gate: PackedMatrix,
    up: PackedMatrix,
    down: PackedMatrix,
}

/// A model ready to run.
pub struct Model {
    config: Config,
    embedding: PackedMatrix,
    layers: Vec<Layer>,
    output_norm: Vec<f32>,
    /// None where the embedding is the head.
    output: Option<PackedMatrix>,
    rope: RopeTable,
    tokenizer: Option<Tokenizer>,
    ordinary: Range<u32>,
    sha256: String,
    tokenizer_sha256: Option<String>,
    synthetic: bool,
}

impl Model {
    /// Loads and packs a GGUF file.
    pub fn open_gguf(path: &Path) -> Result<Self> {
        let gguf = Gguf::open(path)?;
        let config = Config::from_gguf(&gguf)?;
        let tokenizer = Tokenizer::from_gguf(&gguf)?;
        let mut model = Self::build(&gguf, config)?;
        model.sha256 = hex(&Sha256::digest(gguf.bytes()));
        model.tokenizer_sha256 = Some(hex(&tokenizer.sha256()));
        model.ordinary = tokenizer.ordinary_ids();
        model.tokenizer = Some(tokenizer);
        Ok(model)
    }

    /// Builds the synthetic model `name`.
    pub fn synthetic(name: &str) -> Result<Self> {
        let source = Synthetic::new(name)?;
        let config = Config::from_synthetic(source.shape);
        let mut model = Self::build(&source, config)?;
        model.sha256 = hex(&source.sha256());
        model.ordinary = 0..config.eos.unwrap_or(config.vocab as u32);
        model.synthetic = true;
        Ok(model)
    }

    fn build(source: &dyn TensorSource, config: Config) -> Result<Self> {
        let Config {
            hidden,
            vocab,
            feed_forward,
            ..
        } = config;
        let (queries, keys) = (
            config.heads.query * config.heads.head_dim,
            config.heads.kv * config.heads.head_dim,
        );
        let tied = !source.names().contains(&OUTPUT);
        refuse_unknown_tensors(source, config.layers)?;
        let layer = |i: usize| -> Result<Layer> {
            let matrix = |name: Name, rows, cols| source.matrix(&name.name(i), rows, cols);
            Ok(Layer {
                attention_norm: source.vector(&Name::AttentionNorm.name(i), hidden)?,
                query: matrix(Name::Query, queries, hidden)?,
                key: matrix(Name::Key, keys, hidden)?,
                value: matrix(Name::Value, keys, hidden)?,
                attention_output: matrix(Name::AttentionOutput, hidden, queries)?,
                feed_forward_norm: source.vector(&Name::FeedForwardNorm.name(i), hidden)?,
                gate: matrix(Name::Gate, feed_forward, hidden)?,
                up: matrix(Name::Up, feed_forward, hidden)?,
                down: matrix(Name::Down, hidden, feed_forward)?,
            })
        };
        Ok(Self {
            config,
            embedding: source.matrix(EMBEDDING, vocab, hidden)?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            output_norm: source.vector(OUTPUT_NORM, hidden)?,
            output: if tied {
                None
            } else {
                Some(source.matrix(OUTPUT, vocab, hidden)?)
            },
            rope: RopeTable::new(config.rope_base, config.heads.head_dim, config.context),
            tokenizer: None,
            ordinary: 0..vocab as u32,
            sha256: String::new(),
            tokenizer_sha256: None,
            synthetic: false,
        })
    }

    /// The architecture's numbers.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The tokenizer, if the model has one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// Lower-case hex SHA-256 of the file, or of a synthetic model's tensors.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Lower-case hex SHA-256 of the tokenizer's definition.
    pub fn tokenizer_sha256(&self) -> Option<&str> {
        self.tokenizer_sha256.as_deref()
    }

    /// Vocabulary size.
    pub fn vocab(&self) -> usize {
        self.config.vocab
    }

    /// Positions the model can address.
    pub fn context_length(&self) -> usize {
        self.config.context
    }

    /// A run of ids without control tokens, for generated text.
    pub fn ordinary_ids(&self) -> Range<u32> {
        self.ordinary.clone()
    }

    /// Whether it was made from a seed.
    pub fn is_synthetic(&self) -> bool {
        self.synthetic
    }

    /// Names of the synthetic models there are.
    pub fn synthetic_names() -> &'static [&'static str] {
        &synthetic::NAMES
    }
}

/// A tensor nobody asks for means the model computes something this decoder does not.
fn refuse_unknown_tensors(source: &dyn TensorSource, layers: usize) -> Result<()> {
    let per_layer = (0..layers).flat_map(|i| Name::ALL.map(|tensor| tensor.name(i)));
    let fixed = [EMBEDDING, OUTPUT_NORM, OUTPUT].map(str::to_owned);
    let known: std::collections::HashSet<String> = per_layer.chain(fixed).collect();
    match source
        .names()
        .into_iter()
        .find(|name| !known.contains(*name))
    {
        None => Ok(()),
        Some(name) => Err(Error::UnexpectedTensor(name.to_owned())),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}
