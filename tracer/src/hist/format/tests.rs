use proptest::prelude::*;

use super::*;

/// Members of all types that 6.1, 6.12 and 6.18 print, one of each.
const FIELDS: &str = include_str!("../../../tests/data/hist/fields.txt");

/// As the kernel prints it (`f_show`).
fn printed(field: &Field) -> String {
    let Field {
        ty,
        name,
        offset,
        size,
        signed,
        ..
    } = field;
    let declared = match ty.split_once('[') {
        Some((ty, length)) if !field.ty.starts_with("__data_loc") => {
            format!("{ty} {name}[{length}")
        }
        _ => format!("{ty} {name}"),
    };
    let signed = u8::from(*signed);
    format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};")
}

#[test]
fn members_of_every_type_are_read() {
    let mut count = 0;
    for line in FIELDS.lines() {
        let field = Field::parse(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(printed(&field), line);
        let class = match field.ty.as_str() {
            "__data_loc char[]" => Class::DynString,
            "__data_loc cpumask_t" => Class::CpuMask,
            "char *" | "const char *" => Class::PtrString,
            ty if ty.contains("char") && ty.ends_with(']') => Class::StaticString,
            _ => Class::Other,
        };
        assert_eq!(field.class, class, "{line}");
        count += 1;
    }
    assert_eq!(count, 291);
}

#[test]
fn relative_locations_are_read_however_they_are_printed() {
    for line in [
        "field:__rel_loc char[] msg;\toffset:8;\tsize:4;\tsigned:0;",
        "\tfield:__rel_loc char msg[];\toffset:8;\tsize:4;\tsigned:0;",
        "  field: __rel_loc char[]  msg ; offset:8; size:4; signed:0; more:1;",
    ] {
        let field = Field::parse(line).unwrap();
        assert_eq!(
            (field.class, field.name.as_str()),
            (Class::RelDynString, "msg")
        );
    }
    assert_eq!(
        Field::parse("field:int x;\toffset:8;\tsize:4;").map(|f| f.signed),
        Some(false)
    );
    for line in [
        "field:int;",
        "field:int x;",
        "int x;\toffset:8;\tsize:4;",
        "field:int x;\toffset:-1;\tsize:4;",
        "field:;;;;",
        "",
    ] {
        assert_eq!(Field::parse(line), None, "{line}");
    }
}

#[test]
fn an_event_is_read_and_its_fields_are_found() {
    let format = crate::hist::samples::format("sched/sched_process_exec");
    assert_eq!(format.id, 303);
    let names: Vec<&str> = format.names().collect();
    assert_eq!(
        names,
        [
            "filename",
            "pid",
            "old_pid",
            "common_type",
            "common_flags",
            "common_preempt_count",
            "common_pid"
        ]
    );
    assert_eq!(format.find("filename").unwrap().class, Class::DynString);
    assert_eq!(format.find("common_pid").unwrap().offset, 4);
    assert_eq!(format.find("comm").unwrap().class, Class::Comm);
    assert_eq!(format.find("CPU").unwrap().class, Class::Cpu);
    assert_eq!(format.find("nofield"), None);
    // An event's own member comes before a pseudo-field.
    let exit = crate::hist::samples::format("sched/sched_process_exit");
    assert_eq!(exit.find("comm").unwrap().class, Class::StaticString);
    for text in [
        "",
        "name: x\nID: 1\nformat:\n",
        "\tfield:int x;\toffset:0;\tsize:4;\tsigned:1;\n",
    ] {
        EventFormat::parse("s", "e", text).unwrap_err();
    }
}

/// Where there is a tracefs, every format in it is read.
#[test]
fn this_machines_formats_are_read() {
    let events = std::path::Path::new("/sys/kernel/tracing/events");
    let Ok(systems) = std::fs::read_dir(events) else {
        eprintln!("skipped: {} cannot be read", events.display());
        return;
    };
    let mut count = 0;
    for system in systems.flatten() {
        for event in std::fs::read_dir(system.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(text) = std::fs::read_to_string(event.path().join("format")) else {
                continue;
            };
            let format = EventFormat::parse("s", "e", &text).unwrap();
            let lines = text.matches("\tfield:").count();
            assert_eq!(format.fields.len() + format.common.len(), lines, "{text}");
            count += 1;
        }
    }
    eprintln!("{count} formats");
}

proptest! {
    #[test]
    fn no_text_panics(text in "(name: x\nID: [0-9]{1,12}\n)?(\tfield:[a-z_ \\[\\]*é]{0,20};\toffset:[0-9-]{0,12};\tsize:[0-9]{0,12};\n){0,4}.{0,30}") {
        let _format = EventFormat::parse("s", "e", &text);
    }
}
