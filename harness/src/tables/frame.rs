//! A table as a polars frame, and frames as text, CSV, Parquet and JSON.
//!
//! Not here: what stands in a table (`rows`), or SQL (`query`).

use polars::prelude::{AnyValue, CsvWriter, DataFrame, ParquetWriter, PolarsResult, SerWriter};
use polars::prelude::{Column as Series, IntoLazy, LazyFrame};
use serde_json::{Map, Value, json};

use super::{Column, Kind};
use crate::error::Error;
use crate::table::{Table, grouped};

/// Values of one column.
enum Values {
    Text(Vec<Option<String>>),
    Whole(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(Vec::new()),
            Kind::Whole => Self::Whole(Vec::new()),
            Kind::Real => Self::Real(Vec::new()),
            Kind::Flag => Self::Flag(Vec::new()),
        }
    }

    /// Takes a value of this kind or a null; `None` for another.
    fn push(&mut self, value: Option<&Value>) -> Option<()> {
        let value = value.filter(|it| !it.is_null());
        match (self, value) {
            (Self::Text(them), None) => them.push(None),
            (Self::Whole(them), None) => them.push(None),
            (Self::Real(them), None) => them.push(None),
            (Self::Flag(them), None) => them.push(None),
            (Self::Text(them), Some(it)) => them.push(Some(it.as_str()?.to_owned())),
            (Self::Whole(them), Some(it)) => them.push(Some(it.as_i64()?)),
            (Self::Real(them), Some(it)) => them.push(Some(it.as_f64()?)),
            (Self::Flag(them), Some(it)) => them.push(Some(it.as_bool()?)),
        }
        Some(())
    }

    fn series(&self, name: &str) -> Series {
        match self {
            Self::Text(them) => Series::new(name.into(), them),
            Self::Whole(them) => Series::new(name.into(), them),
            Self::Real(them) => Series::new(name.into(), them),
            Self::Flag(them) => Series::new(name.into(), them),
        }
    }
}

/// A table being filled.
pub struct Frame {
    columns: Vec<Column>,
    values: Vec<Values>,
    rows: usize,
}

impl Frame {
    /// An empty table of these columns.
    pub fn new(columns: Vec<Column>) -> Self {
        let values = columns.iter().map(|it| Values::new(it.kind)).collect();
        Self {
            columns,
            values,
            rows: 0,
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row; what it does not state is null. A key without a column, or a value of another kind, is broken evidence:
    /// nothing of a record may be lost on the way.
    pub fn push(&mut self, row: &Map<String, Value>) -> Result<(), Error> {
        let mut stated = 0;
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            let value = row.get(column.name);
            stated += usize::from(value.is_some());
            values.push(value).ok_or_else(|| {
                let value = value.cloned().unwrap_or_default();
                let (name, kind) = (column.name, column.kind.word());
                Error::Broken(format!("{name} = {value} does not fit a {kind} of 64 bits"))
            })?;
        }
        if stated == row.len() {
            self.rows += 1;
            return Ok(());
        }
        let unknown = row
            .keys()
            .filter(|key| self.columns.iter().all(|it| it.name != key.as_str()));
        let unknown: Vec<_> = unknown.map(String::as_str).collect();
        Err(Error::Broken(format!(
            "no column for {}",
            unknown.join(", ")
        )))
    }

    fn data(&self) -> Result<DataFrame, Error> {
        let columns = self.columns.iter().zip(&self.values);
        let columns = columns.map(|(column, values)| values.series(column.name));
        DataFrame::new(columns.collect()).map_err(unexpected)
    }

    /// For a query.
    pub(super) fn lazy(&self) -> Result<LazyFrame, Error> {
        Ok(self.data()?.lazy())
    }

    /// As CSV with a line of names; a null is an empty cell.
    pub fn csv(&self) -> Result<Vec<u8>, Error> {
        csv(&mut self.data()?)
    }

    /// As a Parquet file.
    pub fn parquet(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        ParquetWriter::new(&mut bytes)
            .finish(&mut self.data()?)
            .map_err(unexpected)?;
        Ok(bytes)
    }
}

/// A frame as CSV.
pub(super) fn csv(frame: &mut DataFrame) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let written: PolarsResult<()> = CsvWriter::new(&mut bytes).finish(frame);
    written.map_err(unexpected)?;
    Ok(bytes)
}

/// Frames of our own making are written; that they are not is no fault of whoever typed the command.
fn unexpected(error: impl std::fmt::Display) -> Error {
    Error::Unreachable(format!("cannot write the table: {error}"))
}

/// A frame as names and rows of values.
pub(super) struct Cells {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
}

impl Cells {
    pub(super) fn of(frame: &DataFrame) -> Result<Self, Error> {
        let names = frame.get_column_names();
        let names = names.iter().map(ToString::to_string).collect();
        let mut rows = vec![Vec::new(); frame.height()];
        for column in frame.get_columns() {
            for (at, row) in rows.iter_mut().enumerate() {
                row.push(cell(&column.get(at).map_err(unexpected)?));
            }
        }
        Ok(Self { names, rows })
    }

    /// `{"columns": [...], "rows": [{...}, ...]}`.
    pub(super) fn json(&self) -> Value {
        let object = |row: &Vec<Value>| -> Map<String, Value> {
            self.names
                .iter()
                .cloned()
                .zip(row.iter().cloned())
                .collect()
        };
        let rows: Vec<_> = self.rows.iter().map(object).collect();
        json!({ "columns": self.names, "rows": rows })
    }

    /// Aligned columns; numbers right, words in front left, a null is a dash.
    pub(super) fn text(&self) -> String {
        let is_text = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.all(|cell| cell.is_string() || cell.is_null())
        };
        let left = (0..self.names.len()).take_while(|&it| is_text(it)).count();
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut table = Table::new(&names).left(left.max(1));
        for row in &self.rows {
            table.row(row.iter().map(shown));
        }
        table.render()
    }
}

/// A value of a frame as JSON, which has no infinities and no NaN.
fn cell(value: &AnyValue<'_>) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(it) => (*it).into(),
        AnyValue::String(it) => (*it).into(),
        AnyValue::StringOwned(it) => it.as_str().into(),
        AnyValue::UInt8(it) => (*it).into(),
        AnyValue::UInt16(it) => (*it).into(),
        AnyValue::UInt32(it) => (*it).into(),
        AnyValue::UInt64(it) => (*it).into(),
        AnyValue::Int8(it) => (*it).into(),
        AnyValue::Int16(it) => (*it).into(),
        AnyValue::Int32(it) => (*it).into(),
        AnyValue::Int64(it) => (*it).into(),
        AnyValue::Float32(it) => f64::from(*it).into(),
        AnyValue::Float64(it) => (*it).into(),
        other => other.to_string().into(),
    }
}

/// A value as people read it: whole numbers in groups, others to six decimals.
fn shown(value: &Value) -> String {
    const EXACT_MAX: f64 = 9e15; // doubles below are exact to the unit
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => signed(whole),
            (None, Some(real)) if real.fract() == 0.0 && real.abs() < EXACT_MAX => {
                signed(real as i64)
            }
            (None, Some(real)) => {
                let text = format!("{real:.6}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            (None, None) => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let column = |name, kind| Column {
            name,
            kind,
            meaning: "",
        };
        Frame::new(vec![
            column("arm", Kind::Text),
            column("wall_ns", Kind::Whole),
            column("rate", Kind::Real),
            column("speaks", Kind::Flag),
        ])
    }

    fn row(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_is_missing_is_null_in_every_kind_and_never_zero() {
        let mut frame = frame();
        frame
            .push(&row(
                &json!({ "arm": "fused", "wall_ns": 7, "rate": 0.5, "speaks": true }),
            ))
            .unwrap();
        frame
            .push(&row(&json!({ "arm": "naive", "wall_ns": null })))
            .unwrap();
        let cells = Cells::of(&frame.data().unwrap()).unwrap();
        let null = Value::Null;
        assert_eq!(
            cells.rows[0],
            [json!("fused"), json!(7), json!(0.5), json!(true)]
        );
        assert_eq!(
            cells.rows[1],
            [json!("naive"), null.clone(), null.clone(), null]
        );
        assert_eq!(
            String::from_utf8(frame.csv().unwrap()).unwrap(),
            "arm,wall_ns,rate,speaks\nfused,7,0.5,true\nnaive,,,\n"
        );
        assert_eq!(frame.rows(), 2);
    }

    #[test]
    fn a_field_without_a_column_and_a_value_of_another_kind_are_refused() {
        let unknown = frame().push(&row(&json!({ "arm": "fused", "walls_ns": 7 })));
        assert!(unknown.unwrap_err().to_string().contains("walls_ns"));
        for wrong in [
            json!({ "wall_ns": 1.5 }),
            json!({ "wall_ns": u64::MAX }),
            json!({ "arm": 1 }),
        ] {
            assert_eq!(frame().push(&row(&wrong)).unwrap_err().exit_code(), 4);
        }
    }

    #[test]
    fn numbers_are_shown_in_groups_and_what_is_no_number_is_null_in_json() {
        assert_eq!(shown(&json!(1_234_567)), "1 234 567");
        assert_eq!(shown(&json!(-1_234_567.0)), "-1 234 567");
        assert_eq!(shown(&json!(1.25)), "1.25");
        assert_eq!(shown(&Value::Null), "-");
        assert_eq!(cell(&AnyValue::Float64(f64::NAN)), Value::Null);
    }
}
