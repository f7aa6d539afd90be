//! Weight matrices packed for the kernels: panels of 16 output rows, lane = output row.
//!
//! Per panel, quantised types interleave rows in groups of four consecutive columns (`[cols/4][16][4]` bytes for Q8_0), so
//! that a 32-bit lane holds four columns of one row: what byte dot products want, and what unpacks to f32 with
//! shifts. Rows are padded to whole panels with zeros. Not here: reading files (`weights`), arithmetic (`kernels`).

use super::buffer::Buffer;
use super::dtype::{BLOCK, DType, f16_at};

/// Output rows per panel.
pub const PANEL_ROWS: usize = 16;
/// Columns interleaved per row.
const QUAD: usize = 4;

/// A `rows` x `cols` matrix; row = output, column = input.
pub struct PackedMatrix {
    rows: usize,
    cols: usize,
    data: Data,
}

enum Data {
    F32(Buffer<f32>),
    Q8_0 {
        scales: Buffer<f32>,
        quants: Buffer<i8>,
    },
    Q4_1 {
        scales: Buffer<f32>,
        minimums: Buffer<f32>,
        quants: Buffer<u8>,
    },
}

/// Sixteen rows of a packed matrix.
#[derive(Clone, Copy)]
pub enum Panel<'a> {
    /// `[cols][16]`.
    F32(&'a [f32]),
    /// Scales `[cols/32][16]`, quants `[cols/4][16][4]`.
    Q8_0 {
        /// Block scales.
        scales: &'a [f32],
        /// Signed weights.
        quants: &'a [i8],
    },
    /// Scales and minimums `[cols/32][16]`; quants `[cols/32][4][16][4]`: byte j of group g holds column 4g + j of the
    /// block in its low nibble and column 16 + 4g + j in its high one.
    Q4_1 {
        /// Block scales.
        scales: &'a [f32],
        /// Block minimums.
        minimums: &'a [f32],
        /// Unsigned nibbles.
        quants: &'a [u8],
    },
}

impl PackedMatrix {
    /// Packs row-major `bytes` of type `dtype`, `[rows][cols]`.
    ///
    /// # Panics
    /// If `bytes` has not exactly the bytes of that shape, or `cols` is no multiple of the block; loaders check both.
    pub fn pack(dtype: DType, rows: usize, cols: usize, bytes: &[u8]) -> Self {
        assert_eq!(cols % dtype.block_elements(), 0);
        let row_bytes = cols / dtype.block_elements() * dtype.block_bytes();
        assert_eq!(bytes.len(), rows * row_bytes);
        let panels = rows.div_ceil(PANEL_ROWS);
        let (elements, blocks) = (
            panels * cols * PANEL_ROWS,
            panels * (cols / BLOCK) * PANEL_ROWS,
        );
        let mut data = match dtype {
            DType::F32 => Data::F32(Buffer::zeroed(elements)),
            DType::Q8_0 => Data::Q8_0 {
                scales: Buffer::zeroed(blocks),
                quants: Buffer::zeroed(elements),
            },
            DType::Q4_1 => Data::Q4_1 {
                scales: Buffer::zeroed(blocks),
                minimums: Buffer::zeroed(blocks),
                quants: Buffer::zeroed(elements / 2),
            },
        };
        for (row, source) in bytes.chunks_exact(row_bytes.max(1)).enumerate() {
            data.pack_row(row, cols, source);
        }
        Self { rows, cols, data }
    }

    /// Packs row-major f32 values, `[rows][cols]`.
    pub fn from_f32(rows: usize, cols: usize, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self::pack(DType::F32, rows, cols, &bytes)
    }

    /// Output rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Panels, the last one padded.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    /// Panel `index`.
    pub fn panel(&self, index: usize) -> Panel<'_> {
        let elements = self.cols * PANEL_ROWS;
        let blocks = self.cols / BLOCK * PANEL_ROWS;
        let part = |size: usize| index * size..(index + 1) * size;
        match &self.data {
            Data::F32(values) => Panel::F32(&values[part(elements)]),
            Data::Q8_0 { scales, quants } => Panel::Q8_0 {
                scales: &scales[part(blocks)],
                quants: &quants[part(elements)],
            },
            Data::Q4_1 {
                scales,
                minimums,
                quants,
            } => Panel::Q4_1 {
                scales: &scales[part(blocks)],
                minimums: &minimums[part(blocks)],
                quants: &quants[part(elements / 2)],
            },
        }
    }

    /// Dequantises one row into `out`, `[cols]`: an embedding lookup.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let panel = self.panel(row / PANEL_ROWS);
        for (col, value) in out.iter_mut().enumerate().take(self.cols) {
            *value = panel.value(row % PANEL_ROWS, col);
        }
    }
}

impl Panel<'_> {
    /// The dequantised weight of `lane` (row within the panel) and `col`: the slow definition of the layout.
    pub fn value(&self, lane: usize, col: usize) -> f32 {
        let block = col / BLOCK * PANEL_ROWS + lane;
        match *self {
            Panel::F32(values) => values[col * PANEL_ROWS + lane],
            Panel::Q8_0 { scales, quants } => {
                f32::from(quants[quad_index(lane, col)]) * scales[block]
            }
            Panel::Q4_1 {
                scales,
                minimums,
                quants,
            } => {
                let (index, high) = nibble_index(lane, col);
                let quant = if high {
                    quants[index] >> 4
                } else {
                    quants[index] & 15
                };
                f32::from(quant) * scales[block] + minimums[block]
            }
        }
    }
}

/// Where `[cols/4][16][4]` keeps (lane, col).
fn quad_index(lane: usize, col: usize) -> usize {
    (col / QUAD * PANEL_ROWS + lane) * QUAD + col % QUAD
}

/// Where `[cols/32][4][16][4]` keeps the nibble of (lane, col), and whether it is the high one.
fn nibble_index(lane: usize, col: usize) -> (usize, bool) {
    const HALF: usize = BLOCK / 2;
    let within = col % HALF;
    let block_bytes = HALF * PANEL_ROWS;
    let index = col / BLOCK * block_bytes + quad_index(lane, within);
    (index, col % BLOCK >= HALF)
}

impl Data {
    fn pack_row(&mut self, row: usize, cols: usize, source: &[u8]) {
        let (panel, lane) = (row / PANEL_ROWS, row % PANEL_ROWS);
        let elements = panel * cols * PANEL_ROWS;
        let blocks = panel * (cols / BLOCK) * PANEL_ROWS;
        match self {
            Self::F32(values) => {
                for (col, bytes) in source.chunks_exact(4).enumerate() {
                    values[elements + col * PANEL_ROWS + lane] =
                        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
            }
            Self::Q8_0 { scales, quants } => {
                for (b, block) in source.chunks_exact(DType::Q8_0.block_bytes()).enumerate() {
                    scales[blocks + b * PANEL_ROWS + lane] = f16_at(block, 0);
                    for (i, &quant) in block[2..].iter().enumerate() {
                        quants[elements + quad_index(lane, b * BLOCK + i)] = quant.cast_signed();
                    }
                }
            }
            Self::Q4_1 {
                scales,
                minimums,
                quants,
            } => {
                for (b, block) in source.chunks_exact(DType::Q4_1.block_bytes()).enumerate() {
                    scales[blocks + b * PANEL_ROWS + lane] = f16_at(block, 0);
                    minimums[blocks + b * PANEL_ROWS + lane] = f16_at(block, 2);
                    for (i, &pair) in block[4..].iter().enumerate() {
                        quants[elements / 2 + nibble_index(lane, b * BLOCK + i).0] = pair;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finite_blocks(dtype: DType, blocks: usize, seed: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = seed
            .iter()
            .copied()
            .cycle()
            .take(blocks * dtype.block_bytes())
            .collect();
        for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
            // Clear an exponent bit of each f16 or f32 so that no weight is infinite or NaN.
            match dtype {
                DType::F32 => block[3] &= 0xBF,
                DType::Q8_0 => block[1] &= 0xBF,
                DType::Q4_1 => {
                    block[1] &= 0xBF;
                    block[3] &= 0xBF;
                }
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn packing_keeps_every_weight(
            kind in 0..3usize, rows in 1..40usize, blocks in 1..4usize,
            seed in prop::collection::vec(any::<u8>(), 64..257),
        ) {
            let dtype = [DType::F32, DType::Q8_0, DType::Q4_1][kind];
            let cols = blocks * BLOCK;
            let bytes = finite_blocks(dtype, rows * cols / dtype.block_elements(), &seed);
            let mut expected = vec![0.0; rows * cols];
            dtype.dequantize(&bytes, &mut expected);
            let packed = PackedMatrix::pack(dtype, rows, cols, &bytes);
            let mut row_values = vec![0.0; cols];
            for row in 0..rows {
                packed.row(row, &mut row_values);
                for (found, expected) in row_values.iter().zip(&expected[row * cols..]) {
                    prop_assert_eq!(found.to_bits(), expected.to_bits());
                }
            }
        }
    }
}
