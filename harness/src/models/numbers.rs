//! The numbers of a model that say how much work it is: from the file's header and its tensors' sizes.
//!
//! Not here: what follows from them (`workloads::cells::needs`).

use engine::model::Config;
use engine::weights::TensorSource;
use engine::weights::gguf::Gguf;
use engine::weights::names::{EMBEDDING, Layer};
use engine::weights::synthetic::Synthetic;
use workloads::record::ModelNumbers;

use super::Located;
use crate::error::Error;

/// The numbers of a GGUF file or a synthetic model.
pub fn numbers(model: &Located) -> Result<ModelNumbers, Error> {
    match &model.path {
        None => {
            let source = Synthetic::new(&model.name)?;
            of(&source, &Config::from_synthetic(source.shape))
        }
        Some(path) if path.is_dir() => Err(Error::Usage(format!(
            "{} is a directory, and envelopes of kind engine need one file that both engines read; \
             give a GGUF file",
            path.display()
        ))),
        Some(path) => {
            let source = Gguf::open(path)?;
            of(&source, &Config::from_gguf(&source)?)
        }
    }
}

fn of(source: &dyn TensorSource, config: &Config) -> Result<ModelNumbers, Error> {
    let mut weight_bytes = 0;
    for name in source.names() {
        // Of an embedding table that is not the output head as well, a step reads a row per token and no more.
        if config.tied || name != EMBEDDING {
            weight_bytes += source.tensor(name)?.bytes.count() as u64;
        }
    }
    let product = source.tensor(&Layer::Query.name(0))?;
    Ok(ModelNumbers {
        layers: config.layers as u64,
        hidden: config.hidden as u64,
        feed_forward: config.feed_forward as u64,
        heads: config.heads.query as u64,
        kv_heads: config.heads.kv as u64,
        head_dim: config.heads.head_dim as u64,
        vocab: config.vocab as u64,
        weight_bytes,
        quantized: product.dtype.is_quantized(),
    })
}
