//! Any text as a `format` file: what is read of it can be found by its name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::hist::EventFormat;

fuzz_target!(|text: &str| {
    let Ok(format) = EventFormat::parse("system", "event", text) else {
        return;
    };
    let lines = text.lines().count();
    assert!(format.fields.len() + format.common.len() <= lines);
    for name in format.names() {
        assert!(format.find(name).is_some());
    }
});
