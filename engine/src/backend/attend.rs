//! Attention of a batch of rows over the pages of their sequences.
//!
//! A block is some consecutive rows and one KV head. It walks its pages ascending; rows that see the same page attend it
//! together. Where there are too few blocks to keep the threads busy, the pages of a block are attended apart and merged
//! afterwards, in the same order: the bits are the same. Not here: one page's arithmetic (`kernels`), which pages a
//! sequence has (`kv`).

use std::ops::Range;

use super::Cpu;
use super::in_order::InOrder;
use crate::kernels::Kernels;
use crate::pool::TileSize;
use crate::tensor::dtype::BLOCK;
use crate::tensor::{
    Activations, LayerView, Mode, PAGE_POSITIONS, PageView, Partials, PartialsMut, Span,
};

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
    mode: Mode,
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
            mode: self.mode,
            queries,
            rows,
            pages,
            heads,
        };
        let threads = self.pool.threads();
        if work.multiply_adds() <= SERIAL_WORK_MAX {
            self.attend_whole(&work, (rows.len().max(1), heads.kv), out);
        } else if rows.len() <= BLOCK_ROWS || work.blocks() < threads * BLOCKS_PER_THREAD {
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
                    let block = work.block(work.block_of(tile.first_row + row, head));
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

    /// Some pages of all KV heads a task, each page by itself; then merged in the order of the pages, whichever is done
    /// first.
    ///
    /// What a task reads lies together, in runs that memory delivers at more than twice the rate of runs of one head, and
    /// what it writes is merged while the cache has it.
    fn attend_apart(&self, work: &Work<'_>, out: &mut [f32]) {
        let (dim, kv) = (work.heads.head_dim, work.heads.kv);
        let blocks: Vec<Block<'_>> = (0..work.blocks()).map(|block| work.block(block)).collect();
        let elements = |block: &Block<'_>| Partials::elements(block.queries(), dim);
        let (mut merges, mut tasks) = (Vec::new(), Vec::new());
        for (rows, heads) in blocks.chunks_exact(kv).enumerate() {
            merges.push(InOrder::new(vec![0.0; kv * elements(&heads[0])])); // [kv][elements]
            let segments = heads[0].walked.len().div_ceil(SEGMENT_PAGES);
            tasks.extend((0..segments).map(|segment| (rows, segment)));
        }
        self.pool.run(tasks.len(), &|task| {
            let (rows, segment) = tasks[task];
            let heads = &blocks[rows * kv..][..kv];
            let (queries, elements) = (heads[0].queries(), elements(&heads[0]));
            let pages = heads[0].walked.clone().skip(segment * SEGMENT_PAGES);
            let pages = pages.take(SEGMENT_PAGES);
            let mut partials = self.buffers.take(pages.len() * kv * elements); // [pages][kv][elements]
            let mut sight = Sight::default();
            for (index, out) in pages.zip(partials.chunks_exact_mut(kv * elements)) {
                sight.look(work, heads[0].rows, index);
                for (block, out) in heads.iter().zip(out.chunks_exact_mut(elements)) {
                    block.attend(&sight, Next::Head, out);
                }
            }
            merges[rows].hand_in(segment, partials, &self.buffers, |sums, partials| {
                for page in partials.chunks_exact(kv * elements) {
                    let heads = sums.chunks_exact_mut(elements);
                    for (sums, page) in heads.zip(page.chunks_exact(elements)) {
                        let (sums, page) =
                            (PartialsMut::of(sums, queries), Partials::of(page, queries));
                        (work.kernels.merge)(sums, page);
                    }
                }
            });
        });
        let cols = work.group_cols();
        let blocks_out = out.chunks_mut(BLOCK_ROWS * kv * cols);
        for ((merged, heads), out) in merges
            .into_iter()
            .zip(blocks.chunks_exact(kv))
            .zip(blocks_out)
        {
            let sums = merged.into_sums();
            for (head, sums) in sums.chunks_exact(elements(&heads[0])).enumerate() {
                let sums = Partials::of(sums, heads[0].queries());
                for (i, row) in out.chunks_exact_mut(kv * cols).enumerate() {
                    let of_row = i * work.group()..(i + 1) * work.group();
                    divide(sums.queries(of_row), &mut row[head * cols..][..cols]);
                }
            }
        }
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
        let mut gathered = Vec::with_capacity(rows.len() * cols);
        for row in rows.clone() {
            gathered.extend_from_slice(&self.queries[row * stride + head * cols..][..cols]);
        }
        Block {
            work: *self,
            rows: &self.rows[rows],
            walked: self.walked(number),
            head,
            rounded: self.rounds().then(|| self.rounded(&gathered)),
            gathered,
        }
    }

    /// Whether queries are rounded to bytes, as inputs of products are: where the keys are.
    fn rounds(&self) -> bool {
        let page = |row: &AttendRow| (self.pages)(row.sequence, row.position / PAGE_POSITIONS);
        let rounded = |row| matches!(page(row), LayerView::Q8_0(_));
        self.mode == Mode::Fast && self.rows.first().is_some_and(rounded)
    }

    /// `queries[m][head_dim]` rounded to bytes, each with zeros up to a whole block.
    fn rounded(&self, queries: &[f32]) -> Activations {
        let dim = self.heads.head_dim;
        let cols = dim.next_multiple_of(BLOCK);
        let mut rounded = Activations::zeroed(queries.len() / dim, cols);
        if cols == dim {
            (self.kernels.quantize)(queries, &mut rounded);
        } else {
            let mut padded = vec![0.0; queries.len() / dim * cols];
            let rows = padded.chunks_exact_mut(cols);
            for (padded, query) in rows.zip(queries.chunks_exact(dim)) {
                padded[..dim].copy_from_slice(query);
            }
            (self.kernels.quantize)(&padded, &mut rounded);
        }
        rounded
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
    /// The same rounded to bytes, where the keys are.
    rounded: Option<Activations>,
}

/// What the rows of a block see of their pages at one index; the same for every head.
#[derive(Default)]
struct Sight<'a> {
    /// By query.
    seen: Vec<Span>,
    groups: Vec<Group<'a>>,
}

/// Neighbouring rows that see one page.
struct Group<'a> {
    page: LayerView<'a>,
    /// The page that the first of them has at the next index, if it sees something of it.
    next: Option<LayerView<'a>>,
    rows: Range<usize>,
}

impl<'a> Sight<'a> {
    /// Takes what `rows` see at `index`.
    fn look(&mut self, work: &Work<'a>, rows: &[AttendRow], index: usize) {
        self.seen.clear();
        self.groups.clear();
        for (i, row) in rows.iter().enumerate() {
            let span = row.span(index);
            self.seen.extend(std::iter::repeat_n(span, work.group()));
            if span.is_empty() {
                continue;
            }
            let page = (work.pages)(row.sequence, index);
            let joins = |group: &Group<'_>| {
                let before = &rows[group.rows.start];
                let shared = work.share_pages && page.is(group.page);
                group.rows.end == i && (row.sequence == before.sequence || shared)
            };
            match self.groups.last_mut() {
                Some(group) if joins(group) => group.rows.end += 1,
                _ => self.groups.push(Group {
                    page,
                    next: (!row.span(index + 1).is_empty())
                        .then(|| (work.pages)(row.sequence, index + 1)),
                    rows: i..i + 1,
                }),
            }
        }
    }
}

impl Block<'_> {
    fn queries(&self) -> usize {
        self.rows.len() * self.work.group()
    }

    /// The partials of all its pages, merged ascending.
    fn walk(&self) -> Vec<f32> {
        let queries = self.queries();
        let elements = Partials::elements(queries, self.work.heads.head_dim);
        let (mut sums, mut page) = (vec![0.0; elements], vec![0.0; elements]);
        let mut sight = Sight::default();
        for index in self.walked.clone() {
            sight.look(&self.work, self.rows, index);
            self.attend(&sight, Next::Page, &mut page);
            let page = Partials::of(&page, queries);
            (self.work.kernels.merge)(PartialsMut::of(&mut sums, queries), page);
        }
        sums
    }

    /// Begins `out` with the partials of the pages seen: neighbouring rows that see one page attend it together.
    fn attend(&self, sight: &Sight<'_>, next: Next, out: &mut [f32]) {
        let (group, dim) = (self.work.group(), self.work.heads.head_dim);
        let elements = Partials::elements(self.queries(), dim);
        let mut out = PartialsMut::of(&mut out[..elements], self.queries());
        out.sum.fill(0.0);
        for Group {
            page,
            next: after,
            rows,
        } in &sight.groups
        {
            let next = match next {
                Next::Head if self.head + 1 < self.work.heads.kv => Some((*page, self.head + 1)),
                Next::Head => after.map(|page| (page, 0)),
                Next::Page => after.map(|page| (page, self.head)),
            };
            let next = next.map(|(page, head)| page.head(head, dim));
            let range = rows.start * group..rows.end * group;
            let (page, out) = (page.head(self.head, dim), out.queries(range.clone()));
            self.attend_page(page, next, (range.clone(), &sight.seen[range]), out);
        }
    }

    /// Fills `out` for some of the queries and what each sees of the page.
    fn attend_page(
        &self,
        page: PageView<'_>,
        next: Option<PageView<'_>>,
        (queries, seen): (Range<usize>, &[Span]),
        out: PartialsMut<'_>,
    ) {
        let (kernels, dim) = (&self.work.kernels, self.work.heads.head_dim);
        let scale = 1.0 / (dim as f32).sqrt();
        if let (PageView::Q8_0 { k, v }, Some(rounded)) = (page, &self.rounded) {
            let next = next.and_then(|next| match next {
                PageView::Q8_0 { k, v } => Some([k, v]),
                PageView::F32 { .. } | PageView::F16 { .. } => None,
            });
            (kernels.attend_fast)([k, v], next, rounded.view().rows(queries), seen, scale, out);
        } else {
            let queries = &self.gathered[queries.start * dim..queries.end * dim];
            (kernels.attend)(page, next, queries, seen, scale, out);
        }
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
