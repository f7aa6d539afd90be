//! Weight matrices packed for the kernels: panels of 16 output rows, lane = output row.
//!
//! Per panel, quantised types interleave rows in groups of four consecutive columns (`[cols/4][16][4]` bytes), so that a
//! 32-bit lane holds four columns of one row: what byte dot products want, and what unpacks to f32 with shifts.
//! Scales and minimums stay the halves they are in the files: decoding is bound by the bytes it reads. Rows are padded to whole panels with zeros. Not here: reading files (`weights`), arithmetic (`kernels`).

use half::f16;

use super::buffer::{Arena, Buffer};
use super::dtype::{BLOCK, DType, widen_bf16};

/// Output rows per panel.
pub const PANEL_ROWS: usize = 16;
/// Columns interleaved per row.
pub const QUAD: usize = 4;
/// What the nibbles of a type without a minimum are above the weight's integer.
pub const NIBBLE_OFFSET: i32 = 8;

/// A `rows` x `cols` matrix; row = output, column = input.
pub struct PackedMatrix {
    rows: usize,
    cols: usize,
    dtype: DType,
    data: Data,
}

enum Data {
    F32(Buffer<f32>),
    Half(Buffer<u16>),
    Bytes {
        scales: Buffer<u16>,
        minimums: Buffer<u16>,
        quants: Buffer<i8>,
    },
    Nibbles {
        scales: Buffer<u16>,
        minimums: Buffer<u16>,
        quants: Buffer<u8>,
    },
}

/// Sixteen rows of a packed matrix.
#[derive(Clone, Copy)]
pub enum Panel<'a> {
    /// `[cols][16]`.
    F32(&'a [f32]),
    /// `[cols][16]` bits of IEEE half.
    F16(&'a [u16]),
    /// `[cols][16]` upper halves of IEEE single.
    BF16(&'a [u16]),
    /// Scales, and minimums of the types that have them, `[cols/32][16]` bits of IEEE half; quants `[cols/4][16][4]`.
    Bytes {
        /// Block scales.
        scales: &'a [u16],
        /// Block minimums; empty if the type has none.
        minimums: &'a [u16],
        /// Signed weights.
        quants: &'a [i8],
    },
    /// Scales and minimums as above; quants `[cols/32][4][16][4]`: byte j of group g holds column 4g + j of the block in
    /// its low nibble and column 16 + 4g + j in its high one. Without minimums a weight's integer is nibble - 8.
    Nibbles {
        /// Block scales.
        scales: &'a [u16],
        /// Block minimums; empty if the type has none.
        minimums: &'a [u16],
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
        Self::pack_in(&Arena::default(), dtype, (rows, cols), bytes)
    }

    /// As `pack`, in memory of `arena`.
    pub fn pack_in(
        arena: &Arena,
        dtype: DType,
        (rows, cols): (usize, usize),
        bytes: &[u8],
    ) -> Self {
        let mut packed = Self::zeroed_in(arena, dtype, (rows, cols));
        assert_eq!(bytes.len(), rows * packed.row_bytes());
        packed.pack_rows(0, bytes);
        packed
    }

    /// A matrix of zeros in memory of `arena`, to be filled with [`Self::pack_rows`].
    ///
    /// # Panics
    /// If `cols` is no multiple of the type's block; loaders check it.
    pub fn zeroed_in(arena: &Arena, dtype: DType, (rows, cols): (usize, usize)) -> Self {
        assert_eq!(cols % dtype.block_elements(), 0);
        Self {
            rows,
            cols,
            dtype,
            data: Data::zeroed(arena, dtype, rows.div_ceil(PANEL_ROWS), cols),
        }
    }

    /// Bytes of a row in a file.
    pub fn row_bytes(&self) -> usize {
        self.cols / self.dtype.block_elements() * self.dtype.block_bytes()
    }

    /// Packs whole rows, row-major as in a file, from row `first` on.
    ///
    /// # Panics
    /// If they are more than the matrix has.
    pub fn pack_rows(&mut self, first: usize, bytes: &[u8]) {
        let row_bytes = self.row_bytes().max(1);
        assert!(bytes.len() / row_bytes <= self.rows.saturating_sub(first));
        for (row, source) in bytes.chunks_exact(row_bytes).enumerate() {
            self.data
                .pack_row(self.dtype, first + row, self.cols, source);
        }
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

    /// Element type it was packed from.
    pub fn dtype(&self) -> DType {
        self.dtype
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
        let minimums_of = |minimums: &Buffer<u16>| {
            if minimums.is_empty() {
                0..0
            } else {
                part(blocks)
            }
        };
        match &self.data {
            Data::F32(values) => Panel::F32(&values[part(elements)]),
            Data::Half(bits) if self.dtype == DType::BF16 => Panel::BF16(&bits[part(elements)]),
            Data::Half(bits) => Panel::F16(&bits[part(elements)]),
            Data::Bytes {
                scales,
                minimums,
                quants,
            } => Panel::Bytes {
                scales: &scales[part(blocks)],
                minimums: &minimums[minimums_of(minimums)],
                quants: &quants[part(elements)],
            },
            Data::Nibbles {
                scales,
                minimums,
                quants,
            } => Panel::Nibbles {
                scales: &scales[part(blocks)],
                minimums: &minimums[minimums_of(minimums)],
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
        let at = col * PANEL_ROWS + lane;
        let widened = |bits: u16| f16::from_bits(bits).to_f32();
        let scaled = |integer: i32, scales: &[u16], minimums: &[u16]| {
            let scaled = integer as f32 * widened(scales[block]);
            if minimums.is_empty() {
                scaled
            } else {
                scaled + widened(minimums[block])
            }
        };
        match *self {
            Panel::F32(values) => values[at],
            Panel::F16(bits) => f16::from_bits(bits[at]).to_f32(),
            Panel::BF16(bits) => widen_bf16(bits[at]),
            Panel::Bytes {
                scales,
                minimums,
                quants,
            } => scaled(i32::from(quants[quad_index(lane, col)]), scales, minimums),
            Panel::Nibbles {
                scales,
                minimums,
                quants,
            } => {
                let (index, high) = nibble_index(lane, col);
                let nibble = if high {
                    quants[index] >> 4
                } else {
                    quants[index] & 15
                };
                let offset = if minimums.is_empty() {
                    NIBBLE_OFFSET
                } else {
                    0
                };
                scaled(i32::from(nibble) - offset, scales, minimums)
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
    let block_bytes = HALF * PANEL_ROWS;
    let index = col / BLOCK * block_bytes + quad_index(lane, col % HALF);
    (index, col % BLOCK >= HALF)
}

impl Data {
    fn zeroed(arena: &Arena, dtype: DType, panels: usize, cols: usize) -> Self {
        let (elements, blocks) = (
            panels * cols * PANEL_ROWS,
            panels * (cols / BLOCK) * PANEL_ROWS,
        );
        let scales = || arena.zeroed(blocks);
        match dtype {
            DType::F32 => Self::F32(arena.zeroed(elements)),
            DType::F16 | DType::BF16 => Self::Half(arena.zeroed(elements)),
            DType::Q5_0 | DType::Q8_0 => {
                let (minimums, quants) = (arena.zeroed(0), arena.zeroed(elements));
                Self::Bytes {
                    scales: scales(),
                    minimums,
                    quants,
                }
            }
            DType::Q5_1 => Self::Bytes {
                scales: scales(),
                minimums: scales(),
                quants: arena.zeroed(elements),
            },
            DType::Q4_0 => {
                let (minimums, mut quants) = (arena.zeroed(0), arena.zeroed(elements / 2));
                // Padding rows hold weight 0, which is nibble 8.
                quants.fill(NIBBLE_OFFSET as u8 * 0x11);
                Self::Nibbles {
                    scales: scales(),
                    minimums,
                    quants,
                }
            }
            DType::Q4_1 => {
                let quants = arena.zeroed(elements / 2);
                Self::Nibbles {
                    scales: scales(),
                    minimums: scales(),
                    quants,
                }
            }
        }
    }

    fn pack_row(&mut self, dtype: DType, row: usize, cols: usize, source: &[u8]) {
        let (panel, lane) = (row / PANEL_ROWS, row % PANEL_ROWS);
        let elements = panel * cols * PANEL_ROWS;
        let blocks = panel * (cols / BLOCK) * PANEL_ROWS;
        let sources = source.chunks_exact(dtype.block_bytes()).enumerate();
        match self {
            Self::F32(values) => {
                for (col, bytes) in sources {
                    values[elements + col * PANEL_ROWS + lane] =
                        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
            }
            Self::Half(bits) => {
                for (col, bytes) in sources {
                    bits[elements + col * PANEL_ROWS + lane] =
                        u16::from_le_bytes([bytes[0], bytes[1]]);
                }
            }
            Self::Bytes {
                scales,
                minimums,
                quants,
            } => {
                for (b, bytes) in sources {
                    let at = blocks + b * PANEL_ROWS + lane;
                    copy_halves(bytes, (scales, minimums), at);
                    let to = &mut quants[elements + b * BLOCK * PANEL_ROWS..];
                    if dtype == DType::Q8_0 {
                        let body = &bytes[bytes.len() - BLOCK..];
                        scatter(to, lane, body, u8::cast_signed);
                    } else {
                        scatter(
                            to,
                            lane,
                            &dtype.unpack(bytes).quants,
                            std::convert::identity,
                        );
                    }
                }
            }
            Self::Nibbles {
                scales,
                minimums,
                quants,
            } => {
                for (b, bytes) in sources {
                    let at = blocks + b * PANEL_ROWS + lane;
                    copy_halves(bytes, (scales, minimums), at);
                    // The file's own bytes: element i low, element i + 16 high.
                    let pairs = &bytes[bytes.len() - BLOCK / 2..];
                    let to = &mut quants[elements / 2 + b * BLOCK / 2 * PANEL_ROWS..];
                    scatter(to, lane, pairs, std::convert::identity);
                }
            }
        }
    }
}

/// Quads of a row to where `[quads][16][4]` keeps those of `lane`.
fn scatter<F: Copy, T>(to: &mut [T], lane: usize, from: &[F], cast: impl Fn(F) -> T) {
    let lanes = to.chunks_exact_mut(PANEL_ROWS * QUAD);
    for (to, quad) in lanes.zip(from.chunks_exact(QUAD)) {
        let to = &mut to[lane * QUAD..][..QUAD];
        for (to, &from) in to.iter_mut().zip(quad) {
            *to = cast(from);
        }
    }
}

/// A block's scale and, where the type has one, its minimum: the halves it begins with.
fn copy_halves(block: &[u8], (scales, minimums): (&mut [u16], &mut [u16]), at: usize) {
    scales[at] = u16::from_le_bytes([block[0], block[1]]);
    if let Some(minimum) = minimums.get_mut(at) {
        *minimum = u16::from_le_bytes([block[2], block[3]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of any blocks whose scales and values are finite: an exponent bit of each float is cleared.
    fn finite_blocks(dtype: DType, blocks: usize, seed: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = seed
            .iter()
            .copied()
            .cycle()
            .take(blocks * dtype.block_bytes())
            .collect();
        for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
            match dtype {
                DType::F32 => block[3] &= 0xBF,
                DType::Q4_1 | DType::Q5_1 => {
                    block[1] &= 0xBF;
                    block[3] &= 0xBF;
                }
                _ => block[1] &= 0xBF,
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn packing_keeps_every_weight(
            kind in 0..DType::ALL.len(), rows in 1..40usize, blocks in 1..4usize,
            seed in prop::collection::vec(any::<u8>(), 64..257),
        ) {
            let dtype = DType::ALL[kind];
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
