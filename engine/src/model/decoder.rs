//! One forward pass over a batch of positions, of any sequences, prompts and single tokens alike.
//!
//! Each position's result depends on its token, its position and the pages before it, never on its neighbours in the
//! batch: keys and values are written first, and attention reads what was written. Not here: choosing the batch.

use super::Model;
use super::load::Layer;
use crate::backend::{AttendRow, Cpu, Projection, RopeTable};
use crate::kv::policy::Recompute;
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

/// Intermediate results, used again by every layer.
struct Scratch {
    /// `[n][hidden]`.
    normed: Vec<f32>,
    /// `[n][stride]`: queries, keys and values, `[heads][head_dim]` each, side by side.
    projected: Vec<f32>,
    /// `[n][heads][head_dim]`.
    queries: Vec<f32>,
    /// `[n][heads][head_dim]`.
    attended: Vec<f32>,
    /// `[n][feed_forward]`.
    gated: Vec<f32>,
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

    /// What turns cached keys back by so many positions, `[head_dim / 2][2]`, cosines and sines.
    pub fn turn_back(&self, positions: usize) -> Vec<f32> {
        self.weights.rope.back(positions)
    }

    /// What the keys and values of a position cost to compute, in multiply-adds.
    pub fn recompute(&self) -> Recompute {
        let config = &self.config;
        let heads = config.heads;
        let projections = config.hidden * heads.head_dim * 2 * (heads.query + heads.kv);
        let feed_forward = 3 * config.hidden * config.feed_forward;
        Recompute {
            position: (config.layers * (projections + feed_forward)) as u64,
            attended: (config.layers * 2 * heads.query * heads.head_dim) as u64,
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
        let hidden = self.config.hidden;
        let mut stream = vec![0.0; rows.len() * hidden];
        let tokens = rows.iter().map(|row| row.token);
        cpu.embed(&self.weights.embedding, tokens, &mut stream);
        inspect(Stage::Embedded, &stream);
        let mut scratch = self.scratch(rows.len());
        for (index, layer) in self.weights.layers.iter().enumerate() {
            self.attention(&pass, pool, (index, layer), &mut stream, &mut scratch);
            self.feed_forward(cpu, layer, &mut stream, &mut scratch);
            inspect(Stage::Layer(index), &stream);
        }
        self.logits(cpu, rows, &stream, inspect)
    }

    fn scratch(&self, n: usize) -> Scratch {
        let heads = self.config.heads;
        let stride = self.weights.layers.first();
        let stride = stride.map_or(0, |layer| layer.projections.stride());
        Scratch {
            normed: vec![0.0; n * self.config.hidden],
            projected: vec![0.0; n * stride],
            queries: vec![0.0; n * heads.query * heads.head_dim],
            attended: vec![0.0; n * heads.query * heads.head_dim],
            gated: vec![0.0; n * self.config.feed_forward],
        }
    }

    fn attention(
        &self,
        pass: &Pass<'_>,
        pool: &mut PagePool,
        (index, layer): (usize, &Layer),
        stream: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let Pass {
            cpu,
            sequences,
            rows,
            ..
        } = *pass;
        self.project(pass, layer, stream, scratch);
        let projections = &layer.projections;
        let [keys, values] = [1, 2].map(|part| projections.columns(part));
        let projected = scratch.projected.chunks_exact(projections.stride());
        for (row, projected) in rows.iter().zip(projected) {
            let page = sequences[row.sequence][row.position / PAGE_POSITIONS];
            let slot = row.position % PAGE_POSITIONS;
            if let Some(source) = row.source {
                let pair = (&projected[keys.clone()], &projected[values.clone()]);
                pool.write(page, slot, index, pair, source);
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
        let pool = &*pool;
        let pages = |sequence: usize, at: usize| pool.view(sequences[sequence][at], index);
        let attended = &mut scratch.attended;
        cpu.attend(&scratch.queries, &seen, &pages, self.config.heads, attended);
        let inputs = cpu.inputs(attended, [&layer.attention_output]);
        cpu.matmul_add(&layer.attention_output, &inputs, stream);
    }

    /// First position that a query at `position` sees: a window of W holds W keys, its own among them.
    fn first_seen(&self, position: usize) -> usize {
        let window = self.config.window;
        window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// Queries, keys and values of the normed stream: biased, normed by head, rotated, as far as the model does so.
    fn project(&self, pass: &Pass<'_>, layer: &Layer, stream: &[f32], scratch: &mut Scratch) {
        let cpu = pass.cpu;
        let epsilon = self.config.norm_epsilon;
        cpu.rms_norm(stream, &layer.attention_norm, epsilon, &mut scratch.normed);
        let inputs = cpu.inputs(&scratch.normed, layer.projections.parts());
        cpu.stacked(&layer.projections, &inputs, &mut scratch.projected);
        let finish = Projection {
            stack: &layer.projections,
            biases: layer.biases.as_ref(),
            head_norms: layer.head_norms.as_ref(),
            epsilon,
            turns: &pass.turns,
        };
        cpu.finish(&finish, &mut scratch.projected, &mut scratch.queries);
    }

    fn feed_forward(&self, cpu: &Cpu, layer: &Layer, stream: &mut [f32], scratch: &mut Scratch) {
        let Scratch { normed, gated, .. } = scratch;
        let epsilon = self.config.norm_epsilon;
        cpu.rms_norm(stream, &layer.feed_forward_norm, epsilon, normed);
        let inputs = cpu.inputs(normed, [&layer.gate, &layer.up]);
        cpu.gate_up(&layer.gate, &layer.up, &inputs, gated);
        let inputs = cpu.inputs(gated, [&layer.down]);
        cpu.matmul_add(&layer.down, &inputs, stream);
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
        let head = self.weights.output.as_ref();
        let head = head.unwrap_or(&self.weights.embedding);
        cpu.matmul(head, &cpu.inputs(&normed, [head]), &mut logits);
        logits
    }
}
