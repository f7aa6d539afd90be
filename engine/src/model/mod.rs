//! The decoder of the Llama family: its numbers, its tensors, one forward pass over a batch of positions.
//!
//! Members differ by configuration only. Inside, rotary pairs are neighbours: files that keep them half a head apart have
//! the rows of queries and keys moved at load (`load`). Not here: which positions to run (`schedule`), where keys and
//! values live (`kv`), arithmetic (`backend`).

pub mod config;
mod decoder;
mod digest;
mod files;
mod load;

use std::ops::Range;

pub use config::Config;
pub use decoder::{Row, Stage};

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use crate::weights::synthetic::{self, Synthetic};
use digest::{Digest, Subject, hex};
use load::Weights;

/// A model ready to run.
pub struct Model {
    config: Config,
    weights: Weights,
    tokenizer: Option<Tokenizer>,
    chat_template: Option<String>,
    ordinary: Range<u32>,
    digest: Digest,
    synthetic: bool,
}

impl Model {
    /// Builds the synthetic model `name`.
    pub fn synthetic(name: &str) -> Result<Self> {
        let source = Synthetic::new(name)?;
        let config = Config::from_synthetic(source.shape);
        let weights = Weights::load(&source, &config)?;
        let mut model = Self::build(config, None, Subject::Taken(source.sha256()), weights)?;
        model.ordinary = 0..config.eos.unwrap_or(config.vocab as u32);
        model.synthetic = true;
        Ok(model)
    }

    fn build(
        config: Config,
        tokenizer: Option<Tokenizer>,
        of: Subject,
        weights: Weights,
    ) -> Result<Self> {
        let everything = 0..config.vocab as u32;
        if let Some(tokens) = tokenizer.as_ref().map(Tokenizer::vocab)
            && tokens > config.vocab
        {
            let what = format!("{tokens} tokens for a vocabulary of {}", config.vocab);
            return Err(Error::Inconsistent(what));
        }
        Ok(Self {
            config,
            weights,
            ordinary: tokenizer
                .as_ref()
                .map_or(everything, Tokenizer::ordinary_ids),
            tokenizer,
            chat_template: None,
            digest: Digest::new(of),
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

    /// Source of the chat template, if the model has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Ids that end a text: the configuration's first, then what else the tokenizer names.
    pub fn eos_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.config.eos.into_iter().collect();
        let named = self.tokenizer.as_ref().map_or(&[][..], Tokenizer::eos_ids);
        for id in named {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
        ids
    }

    /// Lower-case hex SHA-256: of a file; of a directory's sorted lines `name sha256`; of a synthetic model's tensors.
    ///
    /// Files are hashed when this is first asked; an error if they are no longer what the model was read from.
    pub fn sha256(&self) -> Result<&str> {
        self.digest.hex()
    }

    /// Lower-case hex SHA-256 of the tokenizer's definition.
    pub fn tokenizer_sha256(&self) -> Option<String> {
        let tokenizer = self.tokenizer.as_ref()?;
        Some(hex(&tokenizer.sha256()))
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
