//! A model directory as the Hugging Face hub lays it out: `config.json`, one safetensors file or an index of several.
//!
//! Not here: what the configuration means (`model::config`), tokenizers and templates.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::file::ModelFile;
use super::names;
use super::safetensors::Safetensors;
use super::{PairLayout, Tensor, TensorSource};
use crate::error::{Error, Result};

/// Weights in one file.
const SINGLE: &str = "model.safetensors";
/// Which of several files holds which tensor.
const INDEX: &str = "model.safetensors.index.json";
/// Longest index believed; those of ninety thousand tensors have 9 MB.
const INDEX_BYTES_MAX: u64 = 1 << 26;
/// Files of one model believed.
const SHARDS_MAX: usize = 1024;

/// The weights of a directory.
pub struct Hub {
    shards: Vec<Safetensors>,
    /// By GGUF name: the shard, and the index in it.
    tensors: HashMap<String, (usize, usize)>,
    files: Vec<String>,
}

impl Hub {
    /// Opens the weights of `directory`: one file, or an index and its shards.
    pub fn open(directory: &Path) -> Result<Self> {
        if directory.join(SINGLE).exists() {
            let (hub, _) = Self::gather(directory, vec![SINGLE.to_owned()])?;
            return Ok(hub);
        }
        let path = directory.join(INDEX);
        let Index { weight_map: map } = ModelFile::open(&path)?.json(INDEX_BYTES_MAX)?;
        let mut files: Vec<String> = map.values().cloned().collect();
        files.sort();
        files.dedup();
        let count = files.len();
        if !(1..=SHARDS_MAX).contains(&count) {
            return Err(bad_index(
                &path,
                format!("names {count} files, not 1 to {SHARDS_MAX}"),
            ));
        }
        if let Some(file) = files.iter().find(|file| !is_plain_name(file)) {
            let what = format!("names `{file}`, which is not a file of this directory");
            return Err(bad_index(&path, what));
        }
        let (mut hub, held) = Self::gather(directory, files)?;
        if held != map {
            let lists = |a: &HashMap<String, String>, b: &HashMap<String, String>| {
                let differs = a.iter().find(|(name, file)| b.get(*name) != Some(*file));
                differs.map(|(name, file)| format!("`{name}` in {file}"))
            };
            let what = match (lists(&map, &held), lists(&held, &map)) {
                (Some(listed), _) => format!("lists {listed}, where it is not"),
                (None, unlisted) => format!("does not list {}", unlisted.unwrap_or_default()),
            };
            return Err(bad_index(&path, what));
        }
        hub.files.push(INDEX.to_owned());
        Ok(hub)
    }

    /// The shards `files`, and which hub name lies in which of them.
    fn gather(directory: &Path, files: Vec<String>) -> Result<(Self, HashMap<String, String>)> {
        let (mut shards, mut tensors, mut held) = (Vec::new(), HashMap::new(), HashMap::new());
        for (number, file) in files.iter().enumerate() {
            let shard = Safetensors::open(&directory.join(file))?;
            for (index, hub) in shard.names().enumerate() {
                if let Some(other) = held.insert(hub.to_owned(), file.clone()) {
                    let what = format!("tensor `{hub}` is in {other} too");
                    let path = directory.join(file);
                    return Err(Error::Malformed {
                        path,
                        offset: 0,
                        what,
                    });
                }
                // A table that early checkpoints stored and every loader computes.
                if hub.ends_with(".rotary_emb.inv_freq") {
                    continue;
                }
                let name = names::from_hub(hub);
                let name = name.ok_or_else(|| Error::UnexpectedTensor(hub.to_owned()))?;
                tensors.insert(name, (number, index));
            }
            shards.push(shard);
        }
        Ok((
            Self {
                shards,
                tensors,
                files,
            },
            held,
        ))
    }

    /// Names of the files read.
    pub fn files(&self) -> &[String] {
        &self.files
    }
}

impl TensorSource for Hub {
    fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let found = self.tensors.get(name);
        let &(shard, index) = found.ok_or_else(|| Error::MissingTensor(name.to_owned()))?;
        self.shards[shard].tensor(index)
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn pair_layout(&self) -> PairLayout {
        PairLayout::Halves
    }
}

/// What is read of an index; the rest is about sizes.
#[derive(Deserialize)]
struct Index {
    /// Tensor to file.
    weight_map: HashMap<String, String>,
}

/// One component that is a name: nothing that leads out of the directory.
fn is_plain_name(file: &str) -> bool {
    let mut components = Path::new(file).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(name)), None) if name == file)
}

fn bad_index(path: &Path, what: String) -> Error {
    let path = PathBuf::from(path);
    Error::Malformed {
        path,
        offset: 0,
        what,
    }
}
