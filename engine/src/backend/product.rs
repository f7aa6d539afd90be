//! Matrix products, cut into tiles of panels.
//!
//! Not here: arithmetic (`kernels`), layouts (`tensor::packed`).

use std::ops::Range;

use super::Cpu;
use crate::pool::TileSize;
use crate::tensor::packed::PANEL_ROWS;
use crate::tensor::{Activations, Mode, PackedMatrix};

/// Panels per tile of a matrix product: two, which is what the kernels run side by side.
const TILE_PANELS: usize = 2;
/// Multiply-adds below which waking threads costs more than it saves; some 25 us of one core.
const SERIAL_WORK_MAX: usize = 1 << 17;

impl Cpu {
    /// `out[n][rows] = x[n][cols] * w`. In `fast` mode the inputs of a quantised matrix are rounded first.
    pub fn matmul(&self, w: &PackedMatrix, x: &[f32], out: &mut [f32]) {
        if self.mode == Mode::Fast && w.dtype().is_quantized() {
            let mut rounded = Activations::zeroed(x.len() / w.cols(), w.cols());
            (self.kernels.quantize)(x, &mut rounded);
            self.product(w, out, |panels, sums| {
                (self.kernels.matmul_fast)(w, panels, &rounded, sums);
            });
        } else {
            self.product(w, out, |panels, sums| {
                (self.kernels.matmul)(w, panels, x, sums);
            });
        }
    }

    /// Runs `multiply` on tiles of panels; it fills `[n][16 * panels]`.
    fn product(
        &self,
        w: &PackedMatrix,
        out: &mut [f32],
        multiply: impl Fn(Range<usize>, &mut [f32]) + Sync,
    ) {
        let n = out.len() / w.rows();
        let small = n * w.rows() * w.cols() <= SERIAL_WORK_MAX;
        let tile_panels = if small { w.panels() } else { TILE_PANELS };
        let size = TileSize {
            rows: n.max(1),
            cols: tile_panels * PANEL_ROWS,
        };
        self.pool.tiles(out, w.rows(), size, |mut tile| {
            let first = tile.first_col / PANEL_ROWS;
            let panels = first..first + tile.cols.div_ceil(PANEL_ROWS);
            let width = panels.len() * PANEL_ROWS;
            let mut sums = vec![0.0; tile.rows * width];
            multiply(panels, &mut sums);
            for (row, sums) in sums.chunks_exact(width).enumerate() {
                let cols = tile.cols;
                tile.row(row).copy_from_slice(&sums[..cols]);
            }
        });
    }
}
