//! Readings of sensors: keys and values of Rust types, in the order of the types.
//!
//! `cargo run --example typed`

use siltdb::{Db, FamilyOptions, Key, KeyOrder, KeyReader, Result, TypedFamily, Value, WriteBatch};
use std::{cmp::Reverse, error::Error, io::Write};

/// The floors of a house; a type of this program, with an order of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Floor {
    Cellar,
    Ground,
    Attic,
}

impl Key for Floor {
    fn order_name() -> String {
        "house.floor".to_owned()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u8).encode(out);
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        match u8::decode(from)? {
            0 => Ok(Self::Cellar),
            1 => Ok(Self::Ground),
            2 => Ok(Self::Attic),
            _ => Err(siltdb::Error::corruption("there is no such floor")),
        }
    }
}

/// What a sensor tells.
#[derive(Debug, PartialEq)]
struct Reading {
    degrees: f64,
    note: Option<String>,
}

impl Value for Reading {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        self.degrees.pack(out)?;
        self.note.pack(out)
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        Ok(Self { degrees: f64::unpack(from)?, note: Option::unpack(from)? })
    }
}

/// A floor, a room, and the minute of the reading, the newest first.
type At = (Floor, String, Reverse<u64>);

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let dir = std::env::temp_dir().join(format!("siltdb-typed-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let options = FamilyOptions::new().key_order(KeyOrder::of::<At>());
    let readings: TypedFamily<At, Reading> = db.family_or_create("readings", options)?.typed()?;

    let mut batch = WriteBatch::new();
    for (minute, floor, room, degrees) in [
        (1, Floor::Attic, "study", 19.0),
        (2, Floor::Ground, "kitchen", 20.5),
        (3, Floor::Cellar, "store", 11.0),
        (300, Floor::Ground, "kitchen", 22.0),
        (301, Floor::Ground, "kit", 18.0),
    ] {
        let note = (degrees > 21.0).then(|| "warm".to_owned());
        let reading = Reading { degrees, note };
        readings.in_batch(&mut batch).put(&(floor, room.to_owned(), Reverse(minute)), &reading)?;
    }
    db.write(&batch)?;

    for pair in readings.iter()? {
        let ((floor, room, Reverse(minute)), Reading { degrees, note }) = pair?;
        let note = note.unwrap_or_default();
        writeln!(out, "{floor:?} {room}, minute {minute}: {degrees} {note}")?;
    }
    // The newest reading of a room is the first, and a room is not the beginning of another name.
    let kitchen = readings.prefix(&(Floor::Ground, "kitchen".to_owned()))?.next().transpose()?;
    let ((_, _, Reverse(minute)), reading) = kitchen.ok_or("no reading")?;
    assert_eq!((minute, reading.degrees, reading.note.as_deref()), (300, 22.0, Some("warm")));
    let ground = readings.prefix(&(Floor::Ground,))?.count();
    assert_eq!((ground, readings.count(..)?), (3, 5));

    // Another key type is refused: its keys have another encoding.
    let refused = db.family("readings")?.typed::<(Floor, String, u64), Reading>();
    writeln!(out, "{}", refused.err().ok_or("another order was taken")?)?;
    drop(readings);
    db.close()?;
    Db::destroy(&dir)?;
    Ok(())
}
