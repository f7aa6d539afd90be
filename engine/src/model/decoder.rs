//! One forward pass over a batch of positions, of any sequences, prompts and single tokens alike.
//!
//! Each position's result depends on its token, its position and the pages before it, never on its neighbours in the
//! batch: keys and values are written first, and attention reads what was written. Not here: choosing the batch.

use super::Model;
use super::load::Layer;
use crate::backend::{AttendRow, Cpu, RopeTable};
use crate::kv::{KvShape, PageId, PagePool, RowSource};
use crate::tensor::PAGE_POSITIONS;

/// A position to run.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Index of its sequence among the page lists.
    pub sequence: usize,
    /// Token at the position.
    pub token: u32,
    /// The position.
    pub position: usize,
    /// Whose token it is; none replays a position whose KV exists.
    pub source: Option<RowSource>,
    /// Whether its logits are wanted.
    pub logits: bool,
}

/// A point of the forward pass where hidden states can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the first layer.
    Embedded,
    /// The residual stream after this layer.
    Layer(usize),
    /// After the last norm.
    Normed,
}

/// What every layer of one forward pass shares.
struct Pass<'a> {
    cpu: &'a Cpu,
    sequences: &'a [&'a [PageId]],
    rows: &'a [Row],
    /// By row.
    turns: RopeTable,
}

impl Model {
    /// The layout of this model's KV pages.
    pub fn kv_shape(&self) -> KvShape {
        let heads = self.config.heads;
        KvShape {
            layers: self.config.layers,
            kv_heads: heads.kv,
            head_dim: heads.head_dim,
        }
    }

    /// Runs `rows`; `sequences` are the pages of each sequence, with room for the rows to be written.
    ///
    /// Returns the logits of the rows that want them, `[wanted][vocab]`, in order.
    pub fn forward(
        &self,
        cpu: &Cpu,
        pool: &mut PagePool,
        sequences: &[&[PageId]],
        rows: &[Row],
    ) -> Vec<f32> {
        self.forward_inspected(cpu, pool, sequences, rows, &mut |_, _| ())
    }

    /// As `forward`, showing `inspect` the hidden states on their way: `[rows][hidden]`, after the last norm
    /// `[wanted][hidden]`.
    pub fn forward_inspected(
        &self,
        cpu: &Cpu,
        pool: &mut PagePool,
        sequences: &[&[PageId]],
        rows: &[Row],
        inspect: &mut dyn FnMut(Stage, &[f32]),
    ) -> Vec<f32> {
        let pass = Pass {
            cpu,
            sequences,
            rows,
            turns: self.weights.rope.table(rows.iter().map(|row| row.position)),
        };
        let mut stream = vec![0.0; rows.len() * self.config.hidden];
        let tokens = rows.iter().map(|row| row.token);
        cpu.embed(&self.weights.embedding, tokens, &mut stream);
        inspect(Stage::Embedded, &stream);
        for (index, layer) in self.weights.layers.iter().enumerate() {
            self.attention(&pass, pool, (index, layer), &mut stream);
            self.feed_forward(cpu, layer, &mut stream);
            inspect(Stage::Layer(index), &stream);
        }
        self.logits(cpu, rows, &stream, inspect)
    }

    fn attention(
        &self,
        pass: &Pass<'_>,
        pool: &mut PagePool,
        (index, layer): (usize, &Layer),
        stream: &mut [f32],
    ) {
        let Pass {
            cpu,
            sequences,
            rows,
            ..
        } = *pass;
        let heads = self.config.heads;
        let keys = heads.kv * heads.head_dim;
        let mut normed = vec![0.0; stream.len()]; // [n][hidden]
        let epsilon = self.config.norm_epsilon;
        cpu.rms_norm(stream, &layer.attention_norm, epsilon, &mut normed);
        let [q, k, v] = self.project(pass, layer, &normed);
        for ((row, k), v) in rows
            .iter()
            .zip(k.chunks_exact(keys))
            .zip(v.chunks_exact(keys))
        {
            let page = sequences[row.sequence][row.position / PAGE_POSITIONS];
            let slot = row.position % PAGE_POSITIONS;
            if let Some(source) = row.source {
                pool.write(page, slot, index, (k, v), source);
            }
        }
        let seen: Vec<AttendRow> = rows
            .iter()
            .map(|row| AttendRow {
                sequence: row.sequence,
                first: self.first_seen(row.position),
                position: row.position,
            })
            .collect();
        let mut attended = vec![0.0; q.len()]; // [n][heads][head_dim]
        let pool = &*pool;
        let pages = |sequence: usize, at: usize| pool.view(sequences[sequence][at], index);
        cpu.attend(&q, &seen, &pages, heads, &mut attended);
        let mut out = normed; // [n][hidden]
        cpu.matmul(&layer.attention_output, &attended, &mut out);
        cpu.add(stream, &out);
    }

    /// First position that a query at `position` sees: a window of W holds W keys, its own among them.
    fn first_seen(&self, position: usize) -> usize {
        let window = self.config.window;
        window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// Queries `[n][heads][head_dim]`, keys and values `[n][kv_heads][head_dim]`: biased, normed by head, rotated, as far
    /// as the model does so.
    fn project(&self, pass: &Pass<'_>, layer: &Layer, normed: &[f32]) -> [Vec<f32>; 3] {
        let cpu = pass.cpu;
        let n = pass.rows.len();
        let mut qkv = [&layer.query, &layer.key, &layer.value].map(|matrix| {
            let mut out = vec![0.0; n * matrix.rows()];
            cpu.matmul(matrix, normed, &mut out);
            out
        });
        for (out, bias) in qkv.iter_mut().zip(layer.biases.iter().flatten()) {
            for row in out.chunks_exact_mut(bias.len()) {
                cpu.add(row, bias);
            }
        }
        for (out, weight) in qkv.iter_mut().zip(layer.head_norms.iter().flatten()) {
            let raw = out.clone();
            cpu.rms_norm(&raw, weight, self.config.norm_epsilon, out);
        }
        for (out, matrix) in qkv.iter_mut().zip([&layer.query, &layer.key]) {
            for (index, row) in out.chunks_exact_mut(matrix.rows()).enumerate() {
                pass.turns.rotate(row, index);
            }
        }
        qkv
    }

    fn feed_forward(&self, cpu: &Cpu, layer: &Layer, stream: &mut [f32]) {
        let width = self.config.feed_forward;
        let n = stream.len() / self.config.hidden;
        let mut normed = vec![0.0; stream.len()]; // [n][hidden]
        cpu.rms_norm(
            stream,
            &layer.feed_forward_norm,
            self.config.norm_epsilon,
            &mut normed,
        );
        let mut gate = vec![0.0; n * width]; // [n][feed_forward]
        let mut up = vec![0.0; n * width]; // [n][feed_forward]
        cpu.matmul(&layer.gate, &normed, &mut gate);
        cpu.matmul(&layer.up, &normed, &mut up);
        cpu.silu_mul(&mut gate, &up, width);
        let mut out = normed; // [n][hidden]
        cpu.matmul(&layer.down, &gate, &mut out);
        cpu.add(stream, &out);
    }

    fn logits(
        &self,
        cpu: &Cpu,
        rows: &[Row],
        stream: &[f32],
        inspect: &mut dyn FnMut(Stage, &[f32]),
    ) -> Vec<f32> {
        let hidden = self.config.hidden;
        let wanted: Vec<f32> = rows
            .iter()
            .zip(stream.chunks_exact(hidden))
            .filter(|(row, _)| row.logits)
            .flat_map(|(_, stream)| stream.iter().copied())
            .collect();
        let mut normed = vec![0.0; wanted.len()]; // [wanted][hidden]
        cpu.rms_norm(
            &wanted,
            &self.weights.output_norm,
            self.config.norm_epsilon,
            &mut normed,
        );
        inspect(Stage::Normed, &normed);
        let mut logits = vec![0.0; wanted.len() / hidden * self.config.vocab];
        cpu.matmul(
            self.weights
                .output
                .as_ref()
                .unwrap_or(&self.weights.embedding),
            &normed,
            &mut logits,
        );
        logits
    }
}
