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
/// Pages for the rows are allocated here; admission has reserved them. Whose turn it is goes by admission; the rows are then
/// put in the order of their pages, so that all who hold a page stand side by side at every depth and attend it together.
/// None if nothing runs.
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
    let mut parts: Vec<(usize, Vec<Row>)> = Vec::new();
    let mut room = chunk_tokens;
    for (index, active) in active.iter_mut().enumerate() {
        let rows = match phase {
            Phase::Prefill if active.is_prefilling() && room > 0 => chunk(active, pool, room)?,
            Phase::Prefill => continue,
            Phase::Decode => vec![Row {
                logits: true,
                ..append(active, pool, RowSource::Decode)?
            }],
        };
        room = room.saturating_sub(rows.len());
        parts.push((index, rows));
    }
    parts.sort_by(|(a, _), (b, _)| active[*a].table.pages().cmp(active[*b].table.pages()));
    let mut batch = Batch {
        phase,
        rows: Vec::new(),
        members: Vec::new(),
    };
    for (sequence, (index, rows)) in parts.into_iter().enumerate() {
        batch.members.push(index);
        let rows = rows.into_iter().map(|row| Row { sequence, ..row });
        batch.rows.extend(rows);
    }
    Ok((!batch.rows.is_empty()).then_some(batch))
}

/// The next prompt positions of one request, at most `room`; a prompt found whole replays its last position.
fn chunk(active: &mut Active, pool: &mut PagePool, room: usize) -> Result<Vec<Row>> {
    let end = active.request.prompt.len();
    let left = end - active.table.len();
    active.chunks += 1;
    if left == 0 {
        let position = end - 1;
        let token = active.request.prompt[position];
        active.replayed += 1;
        return Ok(vec![Row {
            sequence: 0,
            token,
            position,
            source: None,
            logits: true,
        }]);
    }
    let mut rows = Vec::new();
    for _ in 0..left.min(room) {
        let position = active.table.len();
        let source = active.source(position);
        let row = append(active, pool, source)?;
        rows.push(Row {
            logits: position + 1 == end,
            ..row
        });
    }
    Ok(rows)
}

/// The request's next position; its place in the batch is given later.
fn append(active: &mut Active, pool: &mut PagePool, source: RowSource) -> Result<Row> {
    let (token, position) = (active.next_token(), active.table.len());
    let pages = active.table.pages().len();
    active.table.append(pool, token)?;
    active.reserved = active
        .reserved
        .saturating_sub(active.table.pages().len() - pages);
    Ok(Row {
        sequence: 0,
        token,
        position,
        source: Some(source),
        logits: false,
    })
}
