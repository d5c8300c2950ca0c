//! Numbers as the kernel's `kstrtoull` and `kstrtoll` read them with base 0:
//! `0x` is hexadecimal, a leading `0` octal, a `+` and one line break at the
//! end are allowed.

/// `None`: no number, or one that does not fit.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    magnitude(text.strip_prefix('+').unwrap_or(text))
}

/// `None`: no number, or one that does not fit.
pub(super) fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => 0_i64.checked_sub_unsigned(magnitude(rest)?),
        None => unsigned(text)?.try_into().ok(),
    }
}

fn magnitude(text: &str) -> Option<u64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let hexadecimal = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    // from_str_radix would take a sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("010", Some(8)),
            ("0x1F", Some(31)),
            ("0X1f", Some(31)),
            ("+5", Some(5)),
            ("5\n", Some(5)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+", None),
            ("++5", None),
            ("-1", None),
            ("0x", None),
            ("0xg", None),
            ("08", None),
            ("0x+1", None),
            ("5 ", None),
            ("5\n\n", None),
        ] {
            assert_eq!(unsigned(text), number, "{text:?}");
        }
        assert_eq!(signed("-1"), Some(-1));
        assert_eq!(signed("-0x10"), Some(-16));
        assert_eq!(signed("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed("-9223372036854775809"), None);
        assert_eq!(signed("9223372036854775808"), None);
        assert_eq!(signed("-+1"), None);
        assert_eq!(signed("--1"), None);
    }
}
