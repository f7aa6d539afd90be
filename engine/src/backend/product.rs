//! Matrix products: inputs prepared once, shared by the matrices they meet, cut into tiles of panels and inputs.
//!
//! Not here: arithmetic (`kernels`), layouts (`tensor::packed`).

use std::ops::{Range, RangeInclusive};

use super::Cpu;
use crate::pool::{Tile, TileSize};
use crate::tensor::packed::PANEL_ROWS;
use crate::tensor::{Activations, Mode, PackedMatrix};

/// Panels per tile for few inputs: runs long enough for memory to deliver them ahead.
const TILE_PANELS_FEW: RangeInclusive<usize> = 2..=8;
/// Tiles per thread for few inputs: enough for a thread that lost its core for a while not to hold up the others.
const TILES_PER_THREAD: usize = 4;
/// Panels per tile for many: what is done once per tile to the inputs is paid by more outputs.
const TILE_PANELS_MANY: usize = 6;
/// From how many on inputs are many.
const MANY_INPUTS: usize = 16;
/// Inputs per tile: enough to pay for unpacking a panel, few enough for the second-level cache.
const TILE_INPUTS: usize = 128;
/// Multiply-adds below which waking threads costs more than it saves; some 25 us of one core.
const SERIAL_WORK_MAX: usize = 1 << 17;

/// Matrices of equal width that meet the same inputs; their outputs stand side by side, each padded to whole panels.
pub struct Stack {
    parts: Vec<PackedMatrix>,
    /// First panel of each part, then the number of panels.
    starts: Vec<usize>,
}

impl Stack {
    /// Side by side, in order.
    pub fn new(parts: Vec<PackedMatrix>) -> Self {
        let mut starts = vec![0];
        for part in &parts {
            starts.push(starts[starts.len() - 1] + part.panels());
        }
        Self { parts, starts }
    }

    /// The matrices, in order.
    pub fn parts(&self) -> &[PackedMatrix] {
        &self.parts
    }

    /// Columns of one row of output.
    pub fn stride(&self) -> usize {
        self.starts[self.parts.len()] * PANEL_ROWS
    }

    /// Where the output of part `index` stands in a row.
    pub fn columns(&self, index: usize) -> Range<usize> {
        let start = self.starts[index] * PANEL_ROWS;
        start..start + self.parts[index].rows()
    }

    /// The parts that hold `panels`, each with the panels of its own.
    fn within(&self, panels: Range<usize>) -> impl Iterator<Item = (&PackedMatrix, Range<usize>)> {
        let bounds = self.starts.windows(2);
        self.parts.iter().zip(bounds).filter_map(move |(part, at)| {
            let (from, to) = (panels.start.max(at[0]), panels.end.min(at[1]));
            (from < to).then(|| (part, from - at[0]..to - at[0]))
        })
    }
}

/// Rows of inputs `[n][cols]`, and the same rounded to bytes where a product wants them so, `TILE_INPUTS` rows each.
pub struct Inputs<'a> {
    values: &'a [f32],
    cols: usize,
    rounded: Vec<Activations>,
}

impl Inputs<'_> {
    fn rows(&self) -> usize {
        self.values.len() / self.cols
    }
}

impl Cpu {
    /// Inputs `values[n][cols]` for products with `matrices`: in `fast` mode rounded, once, if one is quantised.
    pub fn inputs<'a, 'b>(
        &self,
        values: &'a [f32],
        matrices: impl IntoIterator<Item = &'b PackedMatrix>,
    ) -> Inputs<'a> {
        let mut matrices = matrices.into_iter().peekable();
        let cols = matrices.peek().map_or(1, |matrix| matrix.cols());
        let mut rounded = Vec::new();
        if matrices.any(|matrix| self.rounds(matrix)) {
            let blocks = values.chunks(TILE_INPUTS * cols);
            rounded.extend(blocks.map(|block| Activations::zeroed(block.len() / cols, cols)));
            self.pool.each(&mut rounded, |index, rounded| {
                let from = index * TILE_INPUTS * cols;
                let block = &values[from..from + rounded.rows() * cols];
                (self.kernels.quantize)(block, rounded);
            });
        }
        Inputs {
            values,
            cols,
            rounded,
        }
    }

    /// Whether a product with `matrix` takes rounded inputs.
    fn rounds(&self, matrix: &PackedMatrix) -> bool {
        self.mode == Mode::Fast && matrix.dtype().is_quantized()
    }

    /// `out[n][stride] = inputs * stack`.
    pub fn stacked(&self, stack: &Stack, inputs: &Inputs<'_>, out: &mut [f32]) {
        let work = inputs.values.len() * stack.stride();
        self.tiles_of_panels(work, stack.stride(), out, |tile, panels| {
            let width = panels.len() * PANEL_ROWS;
            let mut column = 0;
            for (matrix, panels) in stack.within(panels) {
                let sums = self.sums(matrix, panels, inputs, tile.first_row, tile.rows);
                let part = sums.len() / tile.rows;
                for (row, sums) in sums.chunks_exact(part).enumerate() {
                    tile.row(row)[column..column + part].copy_from_slice(sums);
                }
                column += part;
            }
            debug_assert_eq!(column, width);
        });
    }

    /// `out[n][rows] = inputs * matrix`.
    pub fn matmul(&self, matrix: &PackedMatrix, inputs: &Inputs<'_>, out: &mut [f32]) {
        self.product(matrix, inputs, out, |out, sums| out.copy_from_slice(sums));
    }

    /// `out[n][rows] += inputs * matrix`: into the residual stream.
    pub fn matmul_add(&self, matrix: &PackedMatrix, inputs: &Inputs<'_>, out: &mut [f32]) {
        self.product(matrix, inputs, out, |out, sums| {
            for (out, &sum) in out.iter_mut().zip(sums) {
                *out += sum;
            }
        });
    }

    fn product(
        &self,
        matrix: &PackedMatrix,
        inputs: &Inputs<'_>,
        out: &mut [f32],
        store: impl Fn(&mut [f32], &[f32]) + Sync,
    ) {
        let work = inputs.values.len() * matrix.rows();
        self.tiles_of_panels(work, matrix.rows(), out, |tile, panels| {
            let width = panels.len() * PANEL_ROWS;
            let sums = self.sums(matrix, panels, inputs, tile.first_row, tile.rows);
            for (row, sums) in sums.chunks_exact(width).enumerate() {
                let cols = tile.cols;
                store(tile.row(row), &sums[..cols]);
            }
        });
    }

    /// `out[n][rows] = silu(inputs * gate) * (inputs * up)`; both matrices have these rows.
    pub fn gate_up(
        &self,
        gate: &PackedMatrix,
        up: &PackedMatrix,
        inputs: &Inputs<'_>,
        out: &mut [f32],
    ) {
        let work = 2 * inputs.values.len() * gate.rows();
        self.tiles_of_panels(work, gate.rows(), out, |tile, panels| {
            let width = panels.len() * PANEL_ROWS;
            let (first, rows) = (tile.first_row, tile.rows);
            let mut gates = self.sums(gate, panels.clone(), inputs, first, rows);
            let ups = self.sums(up, panels, inputs, first, rows);
            (self.kernels.silu_mul)(&mut gates, &ups);
            for (row, gates) in gates.chunks_exact(width).enumerate() {
                let cols = tile.cols;
                tile.row(row).copy_from_slice(&gates[..cols]);
            }
        });
    }

    /// Cuts `out`, rows of `stride`, into tiles and names the panels each needs; little work stays on this thread.
    fn tiles_of_panels(
        &self,
        work: usize,
        stride: usize,
        out: &mut [f32],
        job: impl Fn(&mut Tile<'_>, Range<usize>) + Sync,
    ) {
        let tile_panels = if work <= SERIAL_WORK_MAX {
            stride.div_ceil(PANEL_ROWS).max(1)
        } else if out.len() < MANY_INPUTS * stride {
            let share = stride / PANEL_ROWS / (self.pool.threads() * TILES_PER_THREAD);
            share.clamp(*TILE_PANELS_FEW.start(), *TILE_PANELS_FEW.end())
        } else {
            TILE_PANELS_MANY
        };
        let size = TileSize {
            rows: TILE_INPUTS,
            cols: tile_panels * PANEL_ROWS,
        };
        self.pool.tiles(out, stride, size, |mut tile| {
            let first = tile.first_col / PANEL_ROWS;
            let panels = first..first + tile.cols.div_ceil(PANEL_ROWS);
            job(&mut tile, panels);
        });
    }

    /// `[rows][16 * panels]` of the inputs from `first_row`, a multiple of `TILE_INPUTS`, on.
    fn sums(
        &self,
        matrix: &PackedMatrix,
        panels: Range<usize>,
        inputs: &Inputs<'_>,
        first_row: usize,
        rows: usize,
    ) -> Vec<f32> {
        debug_assert_eq!(inputs.cols, matrix.cols());
        debug_assert!(rows <= inputs.rows() - first_row);
        let mut sums = vec![0.0; rows * panels.len() * PANEL_ROWS];
        if self.rounds(matrix) {
            let rounded = &inputs.rounded[first_row / TILE_INPUTS];
            (self.kernels.matmul_fast)(matrix, panels, rounded, &mut sums);
        } else {
            let values = &inputs.values[first_row * inputs.cols..][..rows * inputs.cols];
            (self.kernels.matmul)(matrix, panels, values, &mut sums);
        }
        sums
    }
}
