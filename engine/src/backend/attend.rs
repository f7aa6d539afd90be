//! Attention of a batch of rows over the pages of their sequences.
//!
//! A block is some consecutive rows and one KV head. It walks its pages ascending; rows that see the same page attend it
//! together. Where there are too few blocks to keep the threads busy, the pages of a block are attended apart and merged
//! afterwards, in the same order: the bits are the same. Not here: one page's arithmetic (`kernels`), which pages a
//! sequence has (`kv`).

use std::ops::Range;
use std::sync::PoisonError;

use super::Cpu;
use crate::kernels::Kernels;
use crate::pool::TileSize;
use crate::tensor::{LayerView, PAGE_POSITIONS, Partials, PartialsMut, Span};

/// Rows per block: with the heads of a group, enough queries to reuse a page from the first-level cache.
const BLOCK_ROWS: usize = 8;
/// Blocks per thread below which the pages of a block are shared out: with fewer, a thread may idle for a whole block.
const BLOCKS_PER_THREAD: usize = 3;
/// Pages per task where they are shared out.
const SEGMENT_PAGES: usize = 4;
/// Multiply-adds below which waking threads costs more than it saves.
const SERIAL_WORK_MAX: usize = 1 << 18;

/// A row of queries: which sequence's pages it sees and up to where.
#[derive(Clone, Copy, Debug)]
pub struct AttendRow {
    /// Index of its sequence.
    pub sequence: usize,
    /// First position it sees.
    pub first: usize,
    /// Its own position, the last it sees.
    pub position: usize,
}

impl AttendRow {
    /// What it sees of the page at `index`.
    fn span(&self, index: usize) -> Span {
        let slot = |position: usize| {
            let slot = position.saturating_sub(index * PAGE_POSITIONS);
            slot.min(PAGE_POSITIONS)
        };
        Span {
            first: slot(self.first),
            end: slot(self.position + 1),
        }
    }
}

/// Head counts of a model.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads; each serves `query / kv` query heads.
    pub kv: usize,
    /// Dimensions per head.
    pub head_dim: usize,
}

/// One layer of the page that a sequence has at an index, of all KV heads.
pub type Pages<'a> = dyn Fn(usize, usize) -> LayerView<'a> + Sync + 'a;

/// What is attended.
#[derive(Clone, Copy)]
struct Work<'a> {
    kernels: Kernels,
    /// Whether rows of different sequences attend a page together that both hold.
    share_pages: bool,
    queries: &'a [f32],
    rows: &'a [AttendRow],
    pages: &'a Pages<'a>,
    heads: Heads,
}

impl Cpu {
    /// Causal attention of `queries[n][heads][head_dim]` over each row's own pages.
    pub fn attend<'a>(
        &self,
        queries: &'a [f32],
        rows: &'a [AttendRow],
        pages: &'a Pages<'a>,
        heads: Heads,
        out: &mut [f32],
    ) {
        let work = Work {
            kernels: self.kernels,
            share_pages: self.share_pages,
            queries,
            rows,
            pages,
            heads,
        };
        let threads = self.pool.threads();
        if work.multiply_adds() <= SERIAL_WORK_MAX {
            self.attend_whole(&work, (rows.len().max(1), heads.kv), out);
        } else if threads > 1 && work.blocks() < threads * BLOCKS_PER_THREAD {
            self.attend_apart(&work, out);
        } else {
            self.attend_whole(&work, (BLOCK_ROWS, 1), out);
        }
    }

    /// Every block from its first page to its last by one thread; `rows` and `heads` of a tile are whole blocks.
    fn attend_whole(&self, work: &Work<'_>, (rows, heads): (usize, usize), out: &mut [f32]) {
        let (group, cols) = (work.group(), work.group_cols());
        let size = TileSize {
            rows,
            cols: heads * cols,
        };
        let stride = work.heads.kv * cols;
        self.pool.tiles(out, stride, size, |mut tile| {
            for row in (0..tile.rows).step_by(BLOCK_ROWS) {
                for col in (0..tile.cols).step_by(cols) {
                    let head = (tile.first_col + col) / cols;
                    let mut block = work.block(work.block_of(tile.first_row + row, head));
                    let sums = block.walk();
                    let sums = Partials::of(&sums, block.queries());
                    for i in 0..block.rows.len() {
                        let out = &mut tile.row(row + i)[col..col + cols];
                        divide(sums.queries(i * group..(i + 1) * group), out);
                    }
                }
            }
        });
    }

    /// First the partials of every block and page by itself, then the merge of each row's and head's, pages ascending.
    ///
    /// A task walks some pages and in each all KV heads: what it reads lies together, in runs that memory delivers at
    /// more than twice the rate of runs of one head.
    fn attend_apart(&self, work: &Work<'_>, out: &mut [f32]) {
        let (group, cols, kv) = (work.group(), work.group_cols(), work.heads.kv);
        let pages_max = (0..work.blocks()).map(|block| work.walked(block).len());
        let segments = pages_max.max().unwrap_or(0).div_ceil(SEGMENT_PAGES);
        let block_queries_max = work.rows.len().min(BLOCK_ROWS) * group;
        let elements = Partials::elements(block_queries_max, work.heads.head_dim);
        let page_elements = kv * elements;
        let segment_elements = SEGMENT_PAGES * page_elements;
        let row_elements = segments * segment_elements;
        let mut kept = self.partials.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = work.blocks() / kv * row_elements;
        if kept.len() < needed {
            kept.resize(needed, 0.0);
        }
        let partials = &mut kept[..needed]; // [blocks of rows][segments][pages of a segment][heads][max, sum, out]
        let size = TileSize {
            rows: 1,
            cols: segment_elements,
        };
        self.pool
            .tiles(partials, segment_elements, size, |mut tile| {
                let (rows, segment) = (tile.first_row / segments, tile.first_row % segments);
                let mut blocks: Vec<Block<'_>> =
                    (0..kv).map(|head| work.block(rows * kv + head)).collect();
                let indexes = work.walked(rows * kv).skip(segment * SEGMENT_PAGES);
                for (index, out) in indexes.zip(tile.row(0).chunks_exact_mut(page_elements)) {
                    for (block, out) in blocks.iter_mut().zip(out.chunks_exact_mut(elements)) {
                        block.attend(index, Next::Head, out);
                    }
                }
            });
        let size = TileSize { rows: 1, cols };
        self.pool.tiles(out, kv * cols, size, |mut tile| {
            let (rows, head) = (tile.first_row / BLOCK_ROWS, tile.first_col / cols);
            let block = rows * kv + head;
            let first = tile.first_row % BLOCK_ROWS * group;
            let own = first..first + group;
            let queries = work.block_rows(block).len() * group;
            let pages = partials[rows * row_elements..]
                .chunks_exact(page_elements)
                .take(work.walked(block).len());
            let mut sums = vec![0.0; Partials::elements(group, work.heads.head_dim)];
            for page in pages {
                let page =
                    &page[head * elements..][..Partials::elements(queries, work.heads.head_dim)];
                let page = Partials::of(page, queries).queries(own.clone());
                (work.kernels.merge)(PartialsMut::of(&mut sums, group), page);
            }
            divide(Partials::of(&sums, group), tile.row(0));
        });
    }
}

/// What is read after a head's page, to be fetched meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The same page of the next head, after the last head the next page of the first.
    Head,
    /// The next page of the same head.
    Page,
}

impl<'a> Work<'a> {
    /// Query heads that share a KV head.
    fn group(&self) -> usize {
        self.heads.query / self.heads.kv
    }

    /// Columns of a group's queries.
    fn group_cols(&self) -> usize {
        self.group() * self.heads.head_dim
    }

    fn multiply_adds(&self) -> usize {
        let seen = self.rows.iter().map(|row| row.position + 1 - row.first);
        2 * seen.sum::<usize>() * self.heads.query * self.heads.head_dim
    }

    /// Blocks are numbered by rows, then by KV head.
    fn blocks(&self) -> usize {
        self.rows.len().div_ceil(BLOCK_ROWS) * self.heads.kv
    }

    fn block_of(&self, row: usize, head: usize) -> usize {
        row / BLOCK_ROWS * self.heads.kv + head
    }

    fn block_rows(&self, block: usize) -> Range<usize> {
        let start = block / self.heads.kv * BLOCK_ROWS;
        start..self.rows.len().min(start + BLOCK_ROWS)
    }

    /// Indexes of the pages that any row of a block sees.
    fn walked(&self, block: usize) -> Range<usize> {
        let rows = &self.rows[self.block_rows(block)];
        let first = rows.iter().map(|row| row.first).min().unwrap_or(0);
        let last = rows.iter().map(|row| row.position).max().unwrap_or(0);
        first / PAGE_POSITIONS..last / PAGE_POSITIONS + 1
    }

    fn block(&self, number: usize) -> Block<'a> {
        let (rows, head) = (self.block_rows(number), number % self.heads.kv);
        let (cols, stride) = (self.group_cols(), self.heads.kv * self.group_cols());
        let gathered = rows.clone().flat_map(|row| {
            let from = row * stride + head * cols;
            &self.queries[from..from + cols]
        });
        Block {
            work: *self,
            rows: &self.rows[rows],
            walked: self.walked(number),
            head,
            gathered: gathered.copied().collect(),
            seen: Vec::new(),
        }
    }
}

/// Consecutive rows and one KV head.
struct Block<'a> {
    work: Work<'a>,
    rows: &'a [AttendRow],
    walked: Range<usize>,
    head: usize,
    /// `[rows][group][head_dim]`.
    gathered: Vec<f32>,
    /// Room for the spans of the queries at a page.
    seen: Vec<Span>,
}

impl Block<'_> {
    fn queries(&self) -> usize {
        self.rows.len() * self.work.group()
    }

    /// The partials of all its pages, merged ascending.
    fn walk(&mut self) -> Vec<f32> {
        let queries = self.queries();
        let elements = Partials::elements(queries, self.work.heads.head_dim);
        let (mut sums, mut page) = (vec![0.0; elements], vec![0.0; elements]);
        for index in self.walked.clone() {
            self.attend(index, Next::Page, &mut page);
            let page = Partials::of(&page, queries);
            (self.work.kernels.merge)(PartialsMut::of(&mut sums, queries), page);
        }
        sums
    }

    /// Begins `out` with the partials of the pages at `index`: neighbouring rows that see one page attend it together.
    fn attend(&mut self, index: usize, next: Next, out: &mut [f32]) {
        let (group, dim) = (self.work.group(), self.work.heads.head_dim);
        let elements = Partials::elements(self.queries(), dim);
        let mut out = PartialsMut::of(&mut out[..elements], self.queries());
        out.sum.fill(0.0);
        let mut start = 0;
        while start < self.rows.len() {
            let together = self.together(&self.rows[start..], index);
            if together > 0 {
                let page = (self.work.pages)(self.rows[start].sequence, index);
                self.seen.clear();
                for row in &self.rows[start..start + together] {
                    let span = row.span(index);
                    self.seen.extend(std::iter::repeat_n(span, group));
                }
                let range = start * group..(start + together) * group;
                let row = &self.rows[start];
                let next = match next {
                    Next::Head if self.head + 1 < self.work.heads.kv => (index, self.head + 1),
                    Next::Head => (index + 1, 0),
                    Next::Page => (index + 1, self.head),
                };
                let next = (!row.span(next.0).is_empty())
                    .then(|| (self.work.pages)(row.sequence, next.0).head(next.1, dim));
                (self.work.kernels.attend)(
                    page.head(self.head, dim),
                    next,
                    &self.gathered[range.start * dim..range.end * dim],
                    &self.seen,
                    1.0 / (dim as f32).sqrt(),
                    out.queries(range),
                );
            }
            start += together.max(1);
        }
    }

    /// How many rows from the first on see the page that the first sees at `index`; none if it sees nothing there.
    fn together(&self, rows: &[AttendRow], index: usize) -> usize {
        let pages = self.work.pages;
        let shared = |row: &AttendRow| {
            self.work.share_pages && pages(row.sequence, index).is(pages(rows[0].sequence, index))
        };
        rows.iter()
            .take_while(|row| {
                !row.span(index).is_empty() && (row.sequence == rows[0].sequence || shared(row))
            })
            .count()
    }
}

/// Attention of some queries: what their pages gave, divided by the sum of weights.
fn divide(sums: Partials<'_>, out: &mut [f32]) {
    let head_dim = out.len() / sums.sum.len();
    let values = sums.out.chunks_exact(head_dim);
    for ((out, values), sum) in out.chunks_exact_mut(head_dim).zip(values).zip(sums.sum) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = value / sum;
        }
    }
}
