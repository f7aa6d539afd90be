//! Logits of a text by themselves: no request, nothing cached, nothing sampled.
//!
//! Not here: requests (`engine`).

use super::Engine;
use crate::error::Result;
use crate::kv::{PageTable, RowSource};
use crate::model::Row;
use crate::schedule::check_prompt;
use crate::tensor::PAGE_POSITIONS;

impl Engine {
    /// Logits of `ids` computed cold, of every position or the last: `[positions][vocab]`.
    pub fn logits(&mut self, ids: &[u32], all: bool) -> Result<Vec<f32>> {
        let mut logits = Vec::new();
        let wanted = |position| all || position + 1 == ids.len();
        self.logits_at(ids, &wanted, &mut |_, row| logits.extend(row))?;
        Ok(logits)
    }

    /// Hands over the logits of the wanted positions of `ids`, computed cold, one position after the other: `[vocab]`.
    pub fn logits_at(
        &mut self,
        ids: &[u32],
        wanted: &dyn Fn(usize) -> bool,
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        check_prompt(ids, 0, self.model.config())?;
        let needed = ids.len().div_ceil(PAGE_POSITIONS);
        let spoken_for = self.spoken_for();
        self.cache.reserve(&mut self.pool, needed, spoken_for)?;
        let mut table = PageTable::default();
        let mut chunks = ids.chunks(self.options.chunk_tokens);
        let result =
            chunks.try_for_each(|chunk| self.logits_chunk(&mut table, chunk, wanted, each));
        table.release(&mut self.pool);
        result
    }

    pub(super) fn logits_chunk(
        &mut self,
        table: &mut PageTable,
        chunk: &[u32],
        wanted: &dyn Fn(usize) -> bool,
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        let mut rows = Vec::with_capacity(chunk.len());
        for &token in chunk {
            let position = table.len();
            table.append(&mut self.pool, token)?;
            let source = Some(RowSource::Prefill);
            rows.push(Row {
                sequence: 0,
                token,
                position,
                source,
                logits: wanted(position),
            });
        }
        let pages = [table.pages()];
        let logits = self.model.forward(&self.cpu, &mut self.pool, &pages, &rows);
        let positions = rows.iter().filter(|row| row.logits);
        let by_position = logits.chunks_exact(self.model.vocab());
        for (row, logits) in positions.zip(by_position) {
            each(row.position, logits);
        }
        Ok(())
    }
}
