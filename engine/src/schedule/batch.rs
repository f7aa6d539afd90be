//! The rows of the next step.

use super::request::Active;
use crate::error::Result;
use crate::event::Phase;
use crate::kv::{PagePool, RowSource};
use crate::model::Row;

/// What one step runs.
pub struct Batch {
    /// Prompts or decodes.
    pub phase: Phase,
    /// Positions; `Row::sequence` indexes `members`.
    pub rows: Vec<Row>,
    /// Indexes of the requests that take part.
    pub members: Vec<usize>,
}

/// Plans the next step: up to `chunk_tokens` prompt positions if any request has some left, else a token for each.
///
/// Pages for the rows are allocated here; admission has reserved them. None if nothing runs.
pub fn plan(
    active: &mut [Active],
    pool: &mut PagePool,
    chunk_tokens: usize,
) -> Result<Option<Batch>> {
    let phase = if active.iter().any(Active::is_prefilling) {
        Phase::Prefill
    } else {
        Phase::Decode
    };
    let mut batch = Batch {
        phase,
        rows: Vec::new(),
        members: Vec::new(),
    };
    for (index, active) in active.iter_mut().enumerate() {
        let sequence = batch.members.len();
        let before = batch.rows.len();
        match phase {
            Phase::Prefill if active.is_prefilling() => {
                chunk(
                    active,
                    pool,
                    sequence,
                    chunk_tokens - before,
                    &mut batch.rows,
                )?;
            }
            Phase::Prefill => {}
            Phase::Decode => {
                let row = append(active, pool, sequence, RowSource::Decode)?;
                batch.rows.push(Row {
                    logits: true,
                    ..row
                });
            }
        }
        if batch.rows.len() > before {
            batch.members.push(index);
        }
        if phase == Phase::Prefill && batch.rows.len() == chunk_tokens {
            break;
        }
    }
    Ok((!batch.rows.is_empty()).then_some(batch))
}

/// The next prompt positions of one request, at most `room`; a prompt found whole replays its last position.
fn chunk(
    active: &mut Active,
    pool: &mut PagePool,
    sequence: usize,
    room: usize,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let end = active.request.prompt.len();
    let left = end - active.table.len();
    active.chunks += 1;
    if left == 0 {
        let position = end - 1;
        let token = active.request.prompt[position];
        rows.push(Row {
            sequence,
            token,
            position,
            source: None,
            logits: true,
        });
        active.replayed += 1;
        return Ok(());
    }
    for _ in 0..left.min(room) {
        let position = active.table.len();
        let source = active.source(position);
        let row = append(active, pool, sequence, source)?;
        rows.push(Row {
            logits: position + 1 == end,
            ..row
        });
    }
    Ok(())
}

fn append(
    active: &mut Active,
    pool: &mut PagePool,
    sequence: usize,
    source: RowSource,
) -> Result<Row> {
    let (token, position) = (active.next_token(), active.table.len());
    let pages = active.table.pages().len();
    active.table.append(pool, token)?;
    active.reserved = active
        .reserved
        .saturating_sub(active.table.pages().len() - pages);
    Ok(Row {
        sequence,
        token,
        position,
        source: Some(source),
        logits: false,
    })
}
