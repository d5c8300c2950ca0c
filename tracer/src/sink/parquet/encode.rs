//! From row groups to the bytes of Parquet files.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::column::{Column, Group, Kind, Schema, Values};
use crate::sink::output::encode::Encode;

/// zstd's own default.
const LEVEL: i32 = 3;

pub struct Encoder {
    schema: Schema,
    /// `None` before the first row of a file.
    file: Option<SerializedFileWriter<Vec<u8>>>,
}

impl Encoder {
    pub const fn new(schema: Schema) -> Self {
        Self { schema, file: None }
    }

    fn file(&mut self, meta: Option<&str>) -> Result<&mut SerializedFileWriter<Vec<u8>>> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(begin(self.schema, meta)?)),
        }
    }

    fn write(&mut self, group: &Group) -> Result<()> {
        let file = self.file(Some(&group.meta))?;
        let mut rows = file.next_row_group()?;
        let mut columns = group.columns.iter();
        while let Some(mut writer) = rows.next_column()? {
            let column = columns.next();
            write(
                &mut writer,
                column.ok_or_else(|| fault("a column without values"))?,
            )?;
            writer.close()?;
        }
        rows.close()?;
        Ok(())
    }

    /// Moves what the writer has made to `out`.
    fn take(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.flush()?;
            out.append(file.inner_mut());
        }
        Ok(())
    }
}

fn fault(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

fn begin(schema: Schema, meta: Option<&str>) -> Result<SerializedFileWriter<Vec<u8>>> {
    let mut text = format!("message {} {{\n", schema.name);
    for (name, kind) in (schema.columns)() {
        let list = |element| {
            format!(
                "OPTIONAL group {name} (LIST) {{ REPEATED group list {{ REQUIRED BYTE_ARRAY element{element}; }} }}\n"
            )
        };
        text += &match kind {
            Kind::Bool => format!("OPTIONAL BOOLEAN {name};\n"),
            Kind::Int => format!("OPTIONAL INT32 {name};\n"),
            Kind::Long => format!("OPTIONAL INT64 {name};\n"),
            Kind::Time => format!("OPTIONAL INT64 {name} (TIMESTAMP(NANOS,true));\n"),
            Kind::Text => format!("OPTIONAL BYTE_ARRAY {name} (STRING);\n"),
            Kind::Blob => format!("OPTIONAL BYTE_ARRAY {name};\n"),
            Kind::Texts => list(" (STRING)"),
            Kind::Blobs => list(""),
        };
    }
    text += "}";
    let meta = meta.map(|m| vec![KeyValue::new("tracer.meta".to_owned(), m.to_owned())]);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("tracer ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        // For each page they would grow with the file, and be held until its end.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(meta)
        .build();
    let schema = Arc::new(parse_message_type(&text)?);
    SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))
}

fn write(writer: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<()> {
    let defined = Some(column.defined.as_slice());
    let repeated = column.repeated.as_deref();
    match &column.values {
        Values::Bools(v) => writer
            .typed::<BoolType>()
            .write_batch(v, defined, repeated)?,
        Values::Ints(v) => writer
            .typed::<Int32Type>()
            .write_batch(v, defined, repeated)?,
        Values::Longs(v) => writer
            .typed::<Int64Type>()
            .write_batch(v, defined, repeated)?,
        Values::Bytes(all, ends) => {
            let all = Bytes::copy_from_slice(all);
            let mut begin = 0;
            let values: Vec<ByteArray> = ends
                .iter()
                // In order and within `all`, as they were its length one after the other.
                .map(|end| all.slice(std::mem::replace(&mut begin, *end)..*end).into())
                .collect();
            writer
                .typed::<ByteArrayType>()
                .write_batch(&values, defined, repeated)?
        }
    };
    Ok(())
}

impl Encode for Encoder {
    type Chunk = Group;

    fn encode(&mut self, group: &Group, out: &mut Vec<u8>) -> io::Result<bool> {
        self.write(group).map_err(io::Error::other)?;
        self.take(out)?;
        Ok(true)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        // Without a row it is a table all the same.
        let file = self.file(None).map_err(io::Error::other)?;
        file.finish().map_err(io::Error::other)?;
        self.take(out)?;
        self.file = None;
        Ok(())
    }
}
