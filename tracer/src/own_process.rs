//! For tests of what ends with its last descriptor. Other tests of the same process fork, and
//! what they fork has a copy of each descriptor until it runs its program.

use std::env;
use std::process::Command;

const VARIABLE: &str = "TRACER_TEST_OWN_PROCESS";

/// Whether the test `name` has a process to itself: `concat!(module_path!(), "::…")`. If not, it
/// is run once more in one, and has passed there.
pub fn in_own_process(name: &str) -> bool {
    if env::var_os(VARIABLE).is_some() {
        return true;
    }
    let (_crate, path) = name.split_once("::").unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args([path, "--exact", "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let [text, errors] =
        [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{name}: {text}{errors}");
    false
}
