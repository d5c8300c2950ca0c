//! Trees that are deep or broad.

use tracer_tests::host::scaled;
use tracer_tests::{Record, Trace, require};

/// 19
#[test]
fn a_deep_chain_of_forks() {
    require!(source);
    let n = scaled(5000);
    for tree in ["--tree=folded", "--tree=full"] {
        let outcome = Trace::fixture("chain", [n.to_string()])
            .option(tree)
            .run()
            .expect_code(0);
        let capture = outcome.capture();
        capture.assert_exact(&outcome.truth());
        let parents: std::collections::HashMap<u64, u64> = capture
            .of("process")
            .map(|p| (p.num("pid"), p.num("orig_ppid")))
            .collect();
        let root = capture.root_pid();
        let deepest = capture.ends().next().expect("the deepest ends first");
        let (mut at, mut depth) = (deepest.num("pid"), 0);
        while at != root {
            at = parents[&at];
            depth += 1;
        }
        assert_eq!(depth, n, "from the deepest up to the command");
    }
}

/// 19
#[test]
fn many_children_of_one_parent() {
    require!(source);
    let n = scaled(100_000);
    let outcome = Trace::fixture("forkstorm", [n.to_string()])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    capture.assert_exact(&outcome.truth());
    let root = capture.root().id();
    for row in capture.of("process").filter(|p| !p.flag("root")) {
        assert_eq!((row.num("orig_ppid"), row.num("orig_parent_start")), root);
    }
}
