//! An output matrix cut into tiles, or a slice into items, each writable by one job.
//!
//! Not here: who runs the jobs (`Pool::run`), what they compute.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::Pool;

impl Pool {
    /// Splits `out`, rows of `stride` elements, into tiles of `tile_rows` x `tile_cols` and runs `job` on each.
    ///
    /// # Panics
    /// If `out` is not whole rows or a tile size is zero.
    pub fn tiles<F>(&self, out: &mut [f32], stride: usize, size: TileSize, job: F)
    where
        F: Fn(Tile<'_>) + Sync,
    {
        let TileSize {
            rows: tile_rows,
            cols: tile_cols,
        } = size;
        assert!(stride > 0 && tile_rows > 0 && tile_cols > 0 && out.len().is_multiple_of(stride));
        let rows = out.len() / stride;
        let across = stride.div_ceil(tile_cols);
        let base = Base(out.as_mut_ptr());
        self.run(rows.div_ceil(tile_rows) * across, &|index| {
            let (row, col) = (index / across * tile_rows, index % across * tile_cols);
            job(Tile {
                base: base.get(),
                stride,
                first_row: row,
                rows: tile_rows.min(rows - row),
                first_col: col,
                cols: tile_cols.min(stride - col),
                lifetime: PhantomData,
            });
        });
    }

    /// Runs `job` on each item, once.
    pub fn each<T: Send>(&self, items: &mut [T], job: impl Fn(usize, &mut T) + Sync) {
        let base = Base(items.as_mut_ptr());
        self.run(items.len(), &|index| {
            // SAFETY: `run` gives each index below the length to one job, once, so no two hold the same item.
            job(index, unsafe { &mut *base.get().add(index) });
        });
    }
}

/// Rows and columns of a tile.
#[derive(Clone, Copy, Debug)]
pub struct TileSize {
    /// Output rows per tile.
    pub rows: usize,
    /// Output columns per tile.
    pub cols: usize,
}

/// The address of the first of many things, to be dealt out without overlap.
struct Base<T>(*mut T);
// SAFETY: parts made from it never overlap, so sharing the address between threads is sound; the parts move to
// other threads, hence Send.
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// A rectangle of an output matrix, writable by one job only.
pub struct Tile<'a> {
    base: *mut f32,
    stride: usize,
    /// First row of the whole output.
    pub first_row: usize,
    /// Rows in this tile.
    pub rows: usize,
    /// First column of the whole output.
    pub first_col: usize,
    /// Columns in this tile.
    pub cols: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

impl Tile<'_> {
    /// Row `row` of the tile, `[cols]`.
    ///
    /// # Panics
    /// If the tile has no such row.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows);
        let start = (self.first_row + row) * self.stride + self.first_col;
        // SAFETY: `Pool::tiles` made the tile inside the output and gave no other tile these elements; `&mut self`
        // keeps two rows of one tile from being borrowed at once.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(start), self.cols) }
    }
}
