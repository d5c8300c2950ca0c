//! Any text, in pieces of any size, gives the items that the whole gives, as
//! many as it has lines at most, and events of them without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::decode::ftrace::{Family, Item, NoLookup, Text};
use tracer::model::Bytes;

/// The items as text, and how many records are among them.
fn read(pieces: &[&[u8]]) -> (Vec<String>, usize) {
    let mut text = Text::new();
    let mut family = Family::new(true);
    let mut items = Vec::new();
    let mut events = 0;
    let mut take = |text: &mut Text, complete| {
        while let Some(item) = text.next(complete) {
            items.push(format!("{item:?}"));
            if let Item::Record(record) = item {
                let record = record.map_name(Bytes::from);
                family.apply(&record, &mut NoLookup, &mut |_| events += 1);
            }
        }
    };
    for piece in pieces {
        text.push(piece);
        take(&mut text, false);
    }
    take(&mut text, true);
    (items, events)
}

fuzz_target!(|data: &[u8]| {
    let Some((size, data)) = data.split_first() else {
        return;
    };
    let pieces: Vec<&[u8]> = data.chunks(usize::from(*size) + 1).collect();
    let (whole, events) = read(&[data]);
    let (items, _) = read(&pieces);
    assert_eq!(whole, items);
    let lines = data.split(|b| *b == b'\n').count();
    // One record, or one item and a warning, a line.
    assert!(whole.len() <= 2 * lines && events <= lines);
});
