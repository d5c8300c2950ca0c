//! The live source, as root.

use super::*;

#[test]
fn placeholder() {
    assert_eq!(page_size("\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"), 4096);
    assert_eq!(page_size("\tfield: char data;\toffset:16;\tsize:65520;\tsigned:0;\n"), 65536);
    assert_eq!(page_size(""), 4096);
}
