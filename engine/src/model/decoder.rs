//! One forward pass over a batch of positions, of any sequences, prompts and single tokens alike.
//!
//! Each position's result depends on its token, its position and the pages before it, never on its neighbours in the
//! batch: keys and values are written first, and attention reads what was written. Not here: choosing the batch.

use super::{Layer, Model};
use crate::backend::{AttendRow, Cpu};
use crate::kv::{KvShape, PageId, PagePool, RowSource};
use crate::tensor::{PAGE_POSITIONS, PageView};

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
        let mut stream = vec![0.0; rows.len() * self.config.hidden];
        cpu.embed(
            &self.embedding,
            rows.iter().map(|row| row.token),
            &mut stream,
        );
        for (index, layer) in self.layers.iter().enumerate() {
            self.attention(cpu, pool, sequences, rows, (index, layer), &mut stream);
            self.feed_forward(cpu, layer, &mut stream);
        }
        self.logits(cpu, rows, &stream)
    }

    fn attention(
        &self,
        cpu: &Cpu,
        pool: &mut PagePool,
        sequences: &[&[PageId]],
        rows: &[Row],
        (index, layer): (usize, &Layer),
        stream: &mut [f32],
    ) {
        let n = rows.len();
        let heads = self.config.heads;
        let (queries, keys) = (heads.query * heads.head_dim, heads.kv * heads.head_dim);
        let mut normed = vec![0.0; stream.len()]; // [n][hidden]
        cpu.rms_norm(
            stream,
            &layer.attention_norm,
            self.config.norm_epsilon,
            &mut normed,
        );
        let mut q = vec![0.0; n * queries]; // [n][heads][head_dim]
        let mut k = vec![0.0; n * keys]; // [n][kv_heads][head_dim]
        let mut v = vec![0.0; n * keys]; // [n][kv_heads][head_dim]
        cpu.matmul(&layer.query, &normed, &mut q);
        cpu.matmul(&layer.key, &normed, &mut k);
        cpu.matmul(&layer.value, &normed, &mut v);
        for (i, row) in rows.iter().enumerate() {
            let (k, v) = (&mut k[i * keys..][..keys], &v[i * keys..][..keys]);
            self.rope
                .rotate(&mut q[i * queries..][..queries], row.position);
            self.rope.rotate(k, row.position);
            let page = sequences[row.sequence][row.position / PAGE_POSITIONS];
            let slot = row.position % PAGE_POSITIONS;
            if let Some(source) = row.source {
                pool.write(page, slot, index, (k, v), source);
            }
        }
        let pages: Vec<Vec<PageView<'_>>> = sequences
            .iter()
            .map(|pages| pages.iter().map(|page| pool.view(*page, index)).collect())
            .collect();
        let seen: Vec<AttendRow> = rows
            .iter()
            .map(|row| AttendRow {
                sequence: row.sequence,
                position: row.position,
            })
            .collect();
        let mut attended = vec![0.0; n * queries]; // [n][heads][head_dim]
        cpu.attend(&q, &seen, &pages, heads, &mut attended);
        let mut out = normed; // [n][hidden]
        cpu.matmul(&layer.attention_output, &attended, &mut out);
        cpu.add(stream, &out);
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

    fn logits(&self, cpu: &Cpu, rows: &[Row], stream: &[f32]) -> Vec<f32> {
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
            &self.output_norm,
            self.config.norm_epsilon,
            &mut normed,
        );
        let mut logits = vec![0.0; wanted.len() / hidden * self.config.vocab];
        cpu.matmul(
            self.output.as_ref().unwrap_or(&self.embedding),
            &normed,
            &mut logits,
        );
        logits
    }
}
