//! Models from the disk: a GGUF file, or a directory as the Hugging Face hub lays it out.
//!
//! The configuration is read first, so that an architecture we do not have is refused by its name. Not here: formats
//! (`weights`, `tokenizer`).

use std::path::Path;

use serde_json::Value as Json;

use super::digest::Subject;
use super::load::{Weights, joined};
use super::{Config, Model};
use crate::error::Result;
use crate::tokenizer::Tokenizer;
use crate::weights::TensorSource;
use crate::weights::file::ModelFile;
use crate::weights::gguf::Gguf;
use crate::weights::hub::Hub;

/// Longest configuration or template believed; the longest published have some 1 MB.
const TEXT_BYTES_MAX: u64 = 1 << 22;
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const CHAT_TEMPLATE: &str = "chat_template.jinja";

impl Model {
    /// Loads and packs a GGUF file or a hub directory.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            Self::open_directory(path)
        } else {
            Self::open_gguf(path)
        }
    }

    /// Loads and packs a GGUF file.
    pub fn open_gguf(path: &Path) -> Result<Self> {
        let digest = Subject::file(path)?;
        let gguf = Gguf::open(path)?;
        let config = Config::from_gguf(&gguf)?;
        let template = gguf.optional_str("tokenizer.chat_template")?;
        let mut model = Self::loaded(
            &gguf,
            config,
            || Tokenizer::from_gguf(&gguf).map(Some),
            digest,
        )?;
        model.chat_template = template.map(str::to_owned);
        Ok(model)
    }

    fn open_directory(directory: &Path) -> Result<Self> {
        let config = ModelFile::open(&directory.join(CONFIG))?.json(TEXT_BYTES_MAX)?;
        let config = Config::from_hub(&config)?;
        let hub = Hub::open(directory)?;
        let has = |name: &str| directory.join(name).exists();
        let optional = [
            TOKENIZER,
            TOKENIZER_CONFIG,
            GENERATION_CONFIG,
            CHAT_TEMPLATE,
        ];
        let present = optional.into_iter().filter(|name| has(name));
        let beside = std::iter::once(CONFIG).chain(present).map(str::to_owned);
        let files = hub.files().iter().cloned().chain(beside).collect();
        let digest = Subject::directory(directory, files)?;
        let tokenizer = || {
            has(TOKENIZER)
                .then(|| Tokenizer::from_hf(directory))
                .transpose()
        };
        let mut model = Self::loaded(&hub, config, tokenizer, digest)?;
        model.chat_template = directory_template(directory)?;
        Ok(model)
    }

    /// Weights and tokenizer at the same time.
    fn loaded(
        source: &dyn TensorSource,
        config: Config,
        tokenizer: impl FnOnce() -> Result<Option<Tokenizer>> + Send,
        digest: Subject,
    ) -> Result<Self> {
        let (tokenizer, weights) = std::thread::scope(|scope| {
            let tokenizer = scope.spawn(tokenizer);
            let weights = Weights::load(source, &config);
            (joined(tokenizer), weights)
        });
        Self::build(config, tokenizer?, digest, weights?)
    }
}

/// The template in a file of its own, else the one in the tokenizer's configuration, its default where there are several.
fn directory_template(directory: &Path) -> Result<Option<String>> {
    let alone = directory.join(CHAT_TEMPLATE);
    if alone.exists() {
        return ModelFile::open(&alone)?.text(TEXT_BYTES_MAX).map(Some);
    }
    let path = directory.join(TOKENIZER_CONFIG);
    if !path.exists() {
        return Ok(None);
    }
    let json: Json = ModelFile::open(&path)?.json(TEXT_BYTES_MAX)?;
    let template = match &json["chat_template"] {
        Json::Array(named) => named
            .iter()
            .find(|one| one["name"] == "default")
            .map_or(&Json::Null, |one| &one["template"]),
        one => one,
    };
    Ok(template.as_str().map(str::to_owned))
}
