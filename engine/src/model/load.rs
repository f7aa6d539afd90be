//! From named tensors to packed layers: every shape checked, rotary pairs put side by side.
//!
//! Layers are packed in parallel, tensor by tensor, so that little of the file is in memory beside its packed form.
//! Not here: where tensors come from (`weights`), what is done with them (`decoder`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::num::NonZero;
use std::thread::ScopedJoinHandle;

use super::Config;
use crate::backend::{Rope, RopeScaling, Stack};
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::tensor::{Arena, PackedMatrix};
use crate::weights::names::{EMBEDDING, Layer as Name, OUTPUT, OUTPUT_NORM, ROPE_DIVISORS};
use crate::weights::{PairLayout, TensorSource};

/// Bytes read before they are packed: they stay in the second-level cache, and reading as many costs little.
const STRIP_BYTES: usize = 128 << 10;

pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    /// Queries, keys, values.
    pub(super) projections: Stack,
    /// Of query, key and value.
    pub(super) biases: Option<[Vec<f32>; 3]>,
    /// Of query and key heads, `[head_dim]`.
    pub(super) head_norms: Option<[Vec<f32>; 2]>,
    pub(super) attention_output: PackedMatrix,
    pub(super) feed_forward_norm: Vec<f32>,
    pub(super) gate: PackedMatrix,
    pub(super) up: PackedMatrix,
    pub(super) down: PackedMatrix,
}

/// Everything a forward pass multiplies by.
pub(super) struct Weights {
    pub(super) embedding: PackedMatrix,
    pub(super) layers: Vec<Layer>,
    pub(super) output_norm: Vec<f32>,
    /// None where the embedding is the head.
    pub(super) output: Option<PackedMatrix>,
    pub(super) rope: Rope,
}

impl Weights {
    pub(super) fn load(source: &dyn TensorSource, config: &Config) -> Result<Self> {
        refuse_unknown_tensors(source, config)?;
        let loader = Loader {
            source,
            config,
            arena: Arena::default(),
        };
        let (hidden, vocab) = (config.hidden, config.vocab);
        // Whatever fails, the error is that of the first tensor in this order, not in time.
        let mut layers: Vec<Option<Result<Layer>>> = (0..config.layers).map(|_| None).collect();
        let pool = Pool::new(std::thread::available_parallelism().map_or(1, NonZero::get))?;
        let (embedding, output) = std::thread::scope(|scope| {
            let embedding = scope.spawn(|| loader.matrix(EMBEDDING, vocab, hidden));
            let head = || (!config.tied).then(|| loader.matrix(OUTPUT, vocab, hidden));
            let output = scope.spawn(move || head().transpose());
            pool.each(&mut layers, |index, layer| {
                *layer = Some(loader.layer(index));
            });
            (joined(embedding), joined(output))
        });
        Ok(Self {
            embedding: embedding?,
            layers: layers.into_iter().flatten().collect::<Result<_>>()?,
            output_norm: loader.vector(OUTPUT_NORM, hidden)?,
            output: output?,
            rope: loader.rope()?,
        })
    }
}

/// What a loading thread gives; its panic, if it had one, goes on here.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

struct Loader<'a> {
    source: &'a dyn TensorSource,
    config: &'a Config,
    arena: Arena,
}

impl Loader<'_> {
    fn layer(&self, i: usize) -> Result<Layer> {
        let Config {
            hidden,
            feed_forward,
            heads,
            ..
        } = *self.config;
        let (queries, keys) = (heads.query * heads.head_dim, heads.kv * heads.head_dim);
        let matrix = |name: Name, rows, cols| self.matrix(&name.name(i), rows, cols);
        let vector = |name: Name, len| self.vector(&name.name(i), len);
        let rotated = |name: Name, len| self.rotated_vector(&name.name(i), len);
        let biases = || {
            Ok::<_, Error>([
                rotated(Name::QueryBias, queries)?,
                rotated(Name::KeyBias, keys)?,
                vector(Name::ValueBias, keys)?,
            ])
        };
        let head_norms = || {
            Ok::<_, Error>([
                rotated(Name::QueryNorm, heads.head_dim)?,
                rotated(Name::KeyNorm, heads.head_dim)?,
            ])
        };
        Ok(Layer {
            attention_norm: vector(Name::AttentionNorm, hidden)?,
            projections: Stack::new(vec![
                self.rotated_matrix(&Name::Query.name(i), queries, hidden)?,
                self.rotated_matrix(&Name::Key.name(i), keys, hidden)?,
                matrix(Name::Value, keys, hidden)?,
            ]),
            biases: self.config.qkv_bias.then(biases).transpose()?,
            head_norms: self.config.head_norm.then(head_norms).transpose()?,
            attention_output: matrix(Name::AttentionOutput, hidden, queries)?,
            feed_forward_norm: vector(Name::FeedForwardNorm, hidden)?,
            gate: matrix(Name::Gate, feed_forward, hidden)?,
            up: matrix(Name::Up, feed_forward, hidden)?,
            down: matrix(Name::Down, hidden, feed_forward)?,
        })
    }

    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<PackedMatrix> {
        self.packed(name, (rows, cols), 1, |rows, _| Cow::Borrowed(rows))
    }

    /// Reads and packs some rows after some others, so that they go through the cache and not through memory; what
    /// `arrange` is given, to be put in order, are whole groups of `group` rows, and how many.
    fn packed(
        &self,
        name: &str,
        (rows, cols): (usize, usize),
        group: usize,
        arrange: impl for<'b> Fn(&'b [u8], usize) -> Cow<'b, [u8]>,
    ) -> Result<PackedMatrix> {
        let tensor = self.source.tensor(name)?;
        tensor.check(&[cols, rows])?;
        let mut packed = PackedMatrix::zeroed_in(&self.arena, tensor.dtype, (rows, cols));
        let group_bytes = (group * packed.row_bytes()).max(1);
        let strip = (STRIP_BYTES / group_bytes).max(1) * group_bytes;
        let mut next = 0;
        tensor.bytes.strips(strip, |bytes| {
            let count = bytes.len() / packed.row_bytes().max(1);
            packed.pack_rows(next, &arrange(bytes, count));
            next += count;
        })?;
        Ok(packed)
    }

    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let tensor = self.source.tensor(name)?;
        tensor.check(&[len])?;
        tensor.values()
    }

    /// A matrix whose outputs are heads to be rotated.
    fn rotated_matrix(&self, name: &str, rows: usize, cols: usize) -> Result<PackedMatrix> {
        let head_dim = self.config.heads.head_dim;
        self.packed(name, (rows, cols), head_dim, |bytes, rows| {
            self.pairs_side_by_side(Cow::Borrowed(bytes), rows)
        })
    }

    /// A vector over the dimensions of heads to be rotated.
    fn rotated_vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let values = self.vector(name, len)?;
        Ok(self.pairs_side_by_side(values.into(), len).into_owned())
    }

    /// `data` as `rows` rows, in each head row j and row j + head_dim / 2 moved to 2j and 2j + 1 if the source has
    /// them apart. Rows are only moved, so both layouts of one model give the same bits.
    fn pairs_side_by_side<'b, T: Copy>(&self, data: Cow<'b, [T]>, rows: usize) -> Cow<'b, [T]> {
        if self.source.pair_layout() == PairLayout::Neighbours {
            return data;
        }
        let width = data.len() / rows;
        let mut moved = Vec::with_capacity(data.len());
        for head in data.chunks_exact(self.config.heads.head_dim * width) {
            let (first, second) = head.split_at(head.len() / 2);
            for (x, y) in first.chunks_exact(width).zip(second.chunks_exact(width)) {
                moved.extend_from_slice(x);
                moved.extend_from_slice(y);
            }
        }
        moved.into()
    }

    fn rope(&self) -> Result<Rope> {
        let Config {
            rope_base,
            rope_scaling,
            heads,
            ..
        } = *self.config;
        if !self.source.names().contains(&ROPE_DIVISORS) {
            return Ok(Rope::new(rope_base, heads.head_dim, rope_scaling, None));
        }
        let divisors = self.vector(ROPE_DIVISORS, heads.head_dim / 2)?;
        if rope_scaling != RopeScaling::None {
            let what =
                format!("`{ROPE_DIVISORS}` and {rope_scaling:?} both scale the rotary frequencies");
            return Err(Error::Inconsistent(what));
        }
        if let Some(bad) = divisors.iter().find(|d| !(d.is_finite() && **d > 0.0)) {
            let what =
                format!("`{ROPE_DIVISORS}` holds {bad}; divisors must be finite and positive");
            return Err(Error::Inconsistent(what));
        }
        Ok(Rope::new(
            rope_base,
            heads.head_dim,
            rope_scaling,
            Some(&divisors),
        ))
    }
}

/// A tensor nobody asks for means the model computes something this decoder does not.
fn refuse_unknown_tensors(source: &dyn TensorSource, config: &Config) -> Result<()> {
    let per_layer =
        (0..config.layers).flat_map(|i| config.layer_tensors().map(move |tensor| tensor.name(i)));
    let fixed = [EMBEDDING, OUTPUT_NORM, OUTPUT, ROPE_DIVISORS].map(str::to_owned);
    let known: HashSet<String> = per_layer.chain(fixed).collect();
    let names = source.names();
    match names.into_iter().find(|name| !known.contains(*name)) {
        None => Ok(()),
        Some(name) => Err(Error::UnexpectedTensor(name.to_owned())),
    }
}
